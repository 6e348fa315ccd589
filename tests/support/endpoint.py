"""An OpenAI-compatible server of a few lines, asked through the real HTTP client."""

import json
import time

import httpx


def event(text="", finish=None, usage=None):
    choices = [{"delta": {"content": text}, "finish_reason": finish}] if text or finish else []
    return f"data: {json.dumps({'choices': choices, 'usage': usage})}\n\n"


def serve(reply, asked, status=200):
    """A client of a server that notes the requests and streams `reply`: text, or bytes one after the other."""

    def handle(request):
        asked.append(request)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "Served-1B"}]})
        return httpx.Response(status, content=reply)

    return httpx.Client(transport=httpx.MockTransport(handle))


GOOD = (
    event("Red") + event(", blue") + event(finish="stop") + event(usage={"completion_tokens": 5}) + "data: [DONE]\n\n"
)


def later(parts, seconds, wait=time.sleep):
    """These parts of an answer, one after the other, so long apart."""
    for part in parts:
        yield part.encode()
        wait(seconds)


class SteppedTime:
    """Instead of the module `time`: its clock stands still until an answer's next part comes."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def later(self, parts, seconds):
        return later(parts, seconds, self.pass_)

    def pass_(self, seconds):
        self.now += seconds
