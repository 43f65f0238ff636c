"""What can go wrong in a collection project, by the answer that a person gets."""

from __future__ import annotations

from taskloom.core.errors import TaskloomError


class CollectError(TaskloomError):
    """A request that cannot be done as it stands: a form with a mistake, a project file with one.

    Attributes:
        status: The HTTP status under which the server reports it.
    """

    status = 422


class ConflictError(CollectError):
    """Somebody else saved the same thing in the meantime."""

    status = 409


class ForbiddenError(CollectError):
    """A page or an action of another role."""

    status = 403


class UnknownError(CollectError):
    """A task, an item or a person that is not there."""

    status = 404


class DiskError(CollectError):
    """A database that cannot be written: nothing of the request was saved."""

    status = 507
