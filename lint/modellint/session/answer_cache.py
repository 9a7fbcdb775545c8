"""Cache of a worker's answers: each holds for one request, and while all that it was made from is the same.

Not seen: files that a model only opens, the environment, the network, and what a model does by the time or the machine.
"""

from __future__ import annotations

from modellint.cache import Store, digest
from modellint.live.inputs.input_spec import parse_all
from modellint.results.codec import Codec, Malformed
from modellint.session.messages import Answer, Limits, Request
from modellint.session.target_facts import digest_of, is_current

_ANSWER: Codec[Answer] = Codec(Answer)
_REQUEST: Codec[Request] = Codec(Request)


class AnswerCache:
    """Answers by request, beside the findings of files. Nothing here ever raises."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, request: Request, limits: Limits) -> Answer | None:
        """The answer that was kept, if the files and versions that it was made from are those that there are now."""
        try:
            answer = _ANSWER.from_json(self._store.load(_name(request, limits)))
        except (Malformed, ValueError, TypeError, KeyError):
            return None
        if answer.facts is None or not is_current(answer.facts.versions, answer.facts.files):
            return None
        return answer

    def put(self, request: Request, limits: Limits, answer: Answer) -> None:
        """Keep an answer, unless its worker did not come to its end: that may be the machine's doing."""
        if answer.facts is not None:
            self._store.save(_name(request, limits), _ANSWER.to_json(answer))


def _name(request: Request, limits: Limits) -> str:
    texts = (repr(_REQUEST.to_json(request)), repr(tuple(limits)), *digests_of_inputs(request))
    return digest(text.encode("utf-8", "surrogatepass") for text in texts)


def digests_of_inputs(request: Request) -> tuple[str, ...]:
    """The digests of the files that a request names beside its code: of tensors, of images, and of weights."""
    specs = parse_all(request.inputs, request.input_folder or request.folder)
    files = [spec.file for spec in specs] + [request.checkpoint]
    return tuple("" if file is None else digest_of(str(file)) or "" for file in files)
