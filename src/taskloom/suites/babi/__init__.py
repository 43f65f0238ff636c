"""bAbI 1.0 and Dyna-bAbI: short stories, their wording, their questions, and how deep one has to reason.

A recipe says which events (MOVE, GRAB, DROP, GIVE), constructs (COREF, CONJ, COMPOUND, NEGATE, INDEF) and questions its
stories have, and how large and of what kind the support of each answer is. Every answer is entailed by the text, every
support is minimal and sufficient. Papers: Weston et al. 2016; Dyna-bAbI (*SEM 2022).
"""

from __future__ import annotations

from taskloom.plan import Plan
from taskloom.registry import suite
from taskloom.seeding import Key
from taskloom.suites.babi.fields import BabiFields


@suite(
    "babi",
    fields=BabiFields,
    describe="Short stories with controlled events, wording, questions and reasoning depth (bAbI 1.0, Dyna-bAbI)",
    version=3,
)
def weave(fields: BabiFields, key: Key) -> Plan:
    """The plan of a story recipe."""
    from taskloom.suites.babi.plan import plan

    return plan(fields, key)
