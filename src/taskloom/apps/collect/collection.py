"""A running project: its folder, its store, its project file, and the server's state in memory."""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
import unicodedata
from dataclasses import replace
from pathlib import Path

from taskloom.apps.collect.corpus import clean_line, fingerprint, read_documents
from taskloom.apps.collect.errors import CollectError, ForbiddenError, phrase
from taskloom.apps.collect.event_store import EventStore
from taskloom.apps.collect.project_file import DATABASE, ProjectFile, read_project
from taskloom.apps.collect.records import ROLES, CollectedTask, Document, Item, Person, Role, Setup
from taskloom.apps.collect.search import PassageIndex
from taskloom.apps.collect.suggesting_models import check_model
from taskloom.core.errors import nearest
from taskloom.core.files import atomic, digest, json_digest

SECRET = ".secret"  # noqa: S105 - the name of a file
"""File with the signing key. It is created after the database."""

SYSTEM = "system"
"""Actor of events that the server records on its own at startup."""

UNSEEN = "\u00ad\u034f\u115f\u1160\u200c\u200d\u3164\uffa0"
"""Soft hyphens, joiners and Hangul fillers. They are legitimate in texts, but in a name they only
serve to hide characters or to imitate another name.
"""

MOST_DOCUMENTS = 1_000
"""Maximum documents in one event. An event is one row, which should not grow with the corpus."""


class Collection:
    """A collection project, opened once by a server and used by all its threads.

    Attributes:
        folder: The project's folder.
        file: The checked project file.
        store: The log and the records.
        notes: Documents that were skipped when the corpus was last read, and why.
        secret: Signing key, created with the project and never shown.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.file: ProjectFile = read_project(self.folder)
        begun = (self.folder / SECRET).exists()
        self.store = EventStore(self.folder / DATABASE, new_allowed=not begun)
        self.notes: list[str] = []
        self._indexes: dict[str, PassageIndex] = {}
        self._entities: dict[str, list[str]] = {}
        self._indexing = threading.Lock()
        try:
            self.secret = self._read_secret()
            self._read_file()
        except BaseException as error:
            self.store.close()
            # SQLite detects most damage when it opens a database. Damage inside a text only shows
            # when the text is read.
            if isinstance(error, sqlite3.DatabaseError | json.JSONDecodeError):
                raise self.store.damaged(error) from error
            raise

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def _read_secret(self) -> bytes:
        path = self.folder / SECRET
        if not path.exists():
            with atomic(path, CollectError) as beside, open(beside, "wb", opener=_private) as file:
                file.write(secrets.token_bytes(32))
        key = path.read_bytes()
        if len(key) != 32:
            raise CollectError(phrase("damaged_secret", path=path))
        return key

    @property
    def setup(self) -> Setup:
        """Record of the project file and of the owners' settings."""
        return self.store.need(Setup, "project").value

    def _read_file(self) -> None:
        """Update the store from the project file: settings, qualification items, documents."""
        content = self.file.model_dump(mode="json")
        known = self.store.get(Setup, "project")
        if known is None or known.value.file != content:
            with self.store.change(SYSTEM, "project", "the project file was read") as change:
                setup = known.value if known else Setup("project", {})
                change.put(replace(setup, file=content))
                rows = [entry.model_dump(mode="json") for entry in self.file.qualification.items]
                items = {f"qualification-{json_digest(row, 6)}": row for row in rows}
                for item in list(self.store.each(Item, stage="qualification")):
                    if item.id not in items:
                        change.remove(Item, item.id)
                for id, row in items.items():
                    change.put(Item(id, "", state="qualification", known=row))
        self.read_corpus()

    def read_corpus(self) -> None:
        """Read documents added since the last time. Known documents are never read again, because
        passages are cut from them.
        """
        sources = digest(
            "\n".join(fingerprint(self.folder / d.documents) for d in self.file.domains)
        )
        setup = self.setup
        if setup.sources == sources:
            self.notes = list(setup.notes)
            return
        self.notes = []
        for domain in self.file.domains:
            documents, notes = read_documents(self.folder / domain.documents)
            self.notes += [f"{domain.name}: {note}" for note in notes]
            for start in range(0, len(documents), MOST_DOCUMENTS):
                part = documents[start : start + MOST_DOCUMENTS]
                with self.store.change(
                    SYSTEM, "corpus", f"{len(part)} documents of {domain.name} were read"
                ) as change:
                    for document in part:
                        key = change.put_text(document.text)
                        id = digest(f"{domain.name}\n{document.entity}\n{key}", 8)
                        words = len(document.text.split())
                        change.put(Document(id, domain.name, document.entity, key, words))
        with self.store.change(SYSTEM, "corpus", "the corpus is read") as change:
            change.put(replace(self.setup, sources=sources, notes=tuple(self.notes)))
        self._indexes.clear()
        self._entities.clear()

    def index(self, domain: str) -> PassageIndex:
        """Search index of a domain, built on first use."""
        with self._indexing:
            if domain not in self._indexes:
                rows = [
                    (d.id, d.entity, d.digest) for d in self.store.each(Document, parent=domain)
                ]
                self._indexes[domain] = PassageIndex(
                    (id, entity, self.store.text(key)) for id, entity, key in rows
                )
            return self._indexes[domain]

    def entities(self, domain: str) -> list[str]:
        """Names of a domain's entities. They are cached, because every form check needs them and a
        corpus may have 100,000.
        """
        if domain not in self._entities:
            self._entities[domain] = sorted(
                {d.entity for d in self.store.each(Document, parent=domain)}
            )
        return self._entities[domain]

    def passage(self, item: Item) -> str:
        """Text of an item's passage."""
        if item.known is not None:
            return str(item.known["passage"])
        document = self.store.need(Document, item.document).value
        return self.store.text(document.digest)[item.start : item.end]

    def question(self, item: Item) -> str:
        """Question of an item."""
        if item.known is not None:
            return str(item.known["question"])
        return self.store.need(CollectedTask, item.task).value.question

    # People.

    def add_person(self, by: str, name: str, roles: list[str]) -> Person:
        """Add a person.

        Args:
            by: Id of the owner who adds the person.
            name: Name shown to others.
            roles: Roles of the person.
        """
        name = clean_line(name)
        if not 1 <= len(name) <= 60:
            raise CollectError(phrase("name_length"))
        if not any(ch.isalnum() and ch not in UNSEEN for ch in name):
            raise CollectError(phrase("name_invisible"))
        person = Person(secrets.token_hex(6), name, check_roles(roles))
        with self.store.change(by, "person", f"added {name}") as change:
            if any(_folded(p.name) == _folded(name) for p in self.people()):
                raise CollectError(phrase("name_taken", name=name))
            change.put(person)
        return person

    def change_roles(self, by: str, id: str, roles: list[str], version: int) -> None:
        """Change a person's roles. The last owner cannot lose the owner role."""
        with self.store.change(by, "roles") as change:
            person = self.store.need(Person, id).value
            new = replace(person, roles=check_roles(roles))
            if "owner" not in new.roles and not any(
                "owner" in p.roles for p in self.people() if p.id != id
            ):
                raise CollectError(phrase("last_owner"))
            change.put(new, version)

    def renew_link(self, by: str, id: str) -> Person:
        """Invalidate a person's links and sessions, so that they need a new link."""
        with self.store.change(by, "link", "older links of this person are invalid") as change:
            person = self.store.need(Person, id).value
            person = replace(person, link=person.link + 1)
            change.put(person)
        return person

    def requalify(self, by: str, id: str) -> None:
        """Allow an annotator to work without qualifying."""
        with self.store.change(by, "qualification", "let in by an owner") as change:
            change.put(replace(self.store.need(Person, id).value, qualified="passed"))

    def people(self) -> list[Person]:
        """All people, by name."""
        return sorted(self.store.each(Person), key=lambda p: p.name.casefold())

    def first_owner(self, name: str = "Owner") -> Person:
        """Return an owner, adding one if the project has none."""
        owner = next((p for p in self.people() if "owner" in p.roles), None)
        return owner or self.add_person(SYSTEM, name, ["owner"])

    def allow_suggestions(self, by: str, allowed: bool) -> None:
        """Switch suggestions by the configured model on or off."""
        if allowed and self.file.model is None:
            raise CollectError(phrase("no_model"))
        if allowed and self.file.model is not None:
            check_model(self.file.model, self.folder)
        with self.store.change(by, "suggestions", "on" if allowed else "off") as change:
            change.put(replace(self.setup, suggestions=allowed))


def _folded(name: str) -> str:
    """Normalise a name to detect look-alikes, ignoring case, width and joiners."""
    seen = "".join(ch for ch in name if ch not in UNSEEN)
    return "".join(unicodedata.normalize("NFKC", seen).casefold().split())


def _private(path: str, flags: int) -> int:
    import os

    return os.open(path, flags, 0o600)


def check_roles(roles: list[str]) -> tuple[Role, ...]:
    """Check the names of roles, and return them in their usual order without duplicates."""
    for role in roles:
        if role not in ROLES:
            raise CollectError(phrase("unknown_role", role=role[:40], nearest=nearest(role, ROLES)))
    if not roles:
        raise CollectError(phrase("no_roles", roles=", ".join(ROLES)))
    return tuple(role for role in ROLES if role in roles)


def require(person: Person, *roles: Role) -> None:
    """Raise `ForbiddenError` if a person has none of the given roles."""
    if not set(roles) & set(person.roles):
        raise ForbiddenError(
            phrase("other_role", wanted=" or ".join(roles), roles=", ".join(person.roles))
        )
