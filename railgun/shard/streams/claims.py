"""Claims: the subjects of all streams as the registrar knows them, so that a change is compared with those that it meets alone."""

from __future__ import annotations

from collections.abc import Mapping

from railgun.model.stream_config import StreamConfig
from railgun.semantics.streams.configuration.claimed_subjects import ClaimedSubjects
from railgun.shard.streams.captures import EVENTS, captured, destination


class ParsedConfigs:
    """Configurations by their text, each parsed once: a request looks at those of all streams."""

    def __init__(self) -> None:
        self._known: dict[str, StreamConfig] = {}

    def __call__(self, text: str) -> StreamConfig:
        config = self._known.get(text)
        if config is None:
            config = self._known[text] = StreamConfig.from_json(text)
        return config

    def retain(self, texts: set[str]) -> None:
        """All other texts are forgotten, once there are as many of them."""
        if len(self._known) > 2 * len(texts):
            self._known = {text: config for text, config in self._known.items() if text in texts}


class Claims:
    """The subjects of all reservations, and where their streams republish to; brought up to date before each question."""

    def __init__(self, parsed: ParsedConfigs) -> None:
        self._parsed = parsed
        self._subjects = ClaimedSubjects()
        self._known: dict[str, list[str]] = {}  # the configurations of each stream, as they were looked at
        self._destinations: dict[str, str] = {}  # by stream

    def follow(self, reserved: Mapping[str, list[str]]) -> None:
        """Look at the streams whose configurations have changed: the present one and the one that may follow, by name."""
        for name in self._known.keys() - reserved.keys():
            self._look(name, [])
        for name, configs in reserved.items():
            if self._known.get(name) != configs:
                self._look(name, configs)

    def _look(self, name: str, configs: list[str]) -> None:
        parsed = [self._parsed(text) for text in configs]
        self._subjects.claim(name, (subject for config in parsed for subject in config.subjects))
        sent_to = destination(parsed[-1]) if parsed else None
        self._destinations.pop(name, None)
        if sent_to is not None:
            self._destinations[name] = sent_to
        self._known.pop(name, None)
        if configs:
            self._known[name] = configs

    def meet(self, config: StreamConfig) -> bool:
        """Whether a subject of the stream collides with one of another stream."""
        return any(self._subjects.who_meets(own) - {config.name} for own in config.subjects)

    def capturing(self) -> dict[str, list[str]]:
        """Streams that capture what shards send out, a change under way taken as done."""
        sent = [EVENTS, *self._destinations.values()]
        names = {name for one in sent for name in self._subjects.who_meets(one)}
        return captured((self._parsed(self._known[name][-1]) for name in names), sent)
