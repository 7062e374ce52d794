"""How far a mirror or a source has come, as callers see it (MIR-12, SRC-13)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from railgun.model.durations import from_nanos, to_nanos
from railgun.model.refusals import Refusal
from railgun.model.stream_config import SubjectTransform

_NEVER = -1  # how the API says that nothing was heard


@dataclass(frozen=True, slots=True)
class StreamSourceInfo:
    """A stream that is copied, by a mirror or as one of several sources.

    ``lag`` counts the messages that are still to be copied. ``active`` is how long ago something was heard from the upstream, None
    for never; ``error`` says why nothing can be copied, None if nothing is wrong.
    """

    name: str
    lag: int = 0
    active: timedelta | None = None
    error: Refusal | None = None
    filter_subject: str | None = None
    subject_transforms: tuple[SubjectTransform, ...] = ()

    def to_api(self) -> dict[str, Any]:
        """The object of STREAM.INFO; what is not set is left out, but for lag and activity."""
        fields: dict[str, Any] = {
            "name": self.name,
            "lag": self.lag,
            "active": _NEVER if self.active is None else to_nanos(self.active),
        }
        if self.error is not None:
            fields["error"] = self.error.as_json()
        if self.filter_subject:
            fields["filter_subject"] = self.filter_subject
        if self.subject_transforms:
            fields["subject_transforms"] = [transform.to_api() for transform in self.subject_transforms]
        return fields

    @classmethod
    def from_api(cls, fields: dict[str, Any]) -> Self:
        active, error = fields.get("active", _NEVER), fields.get("error")
        return cls(
            fields.get("name", ""),
            fields.get("lag", 0),
            None if active < 0 else from_nanos(active),
            error and Refusal(error.get("code", 0), error.get("err_code", 0), error.get("description", "")),
            fields.get("filter_subject") or None,
            tuple(SubjectTransform.from_answer(one) for one in fields.get("subject_transforms") or ()),
        )
