"""The `curl` lines of a document, sent as curl would send them."""

import shlex
from dataclasses import dataclass

import httpx


@dataclass(frozen=True, slots=True)
class Curl:
    url: str
    method: str
    headers: list[tuple[str, str]]
    body: str

    @classmethod
    def of(cls, words: list[str]) -> "Curl":
        """Of the words of a line: an address, -H, -X and --json."""
        program, *rest = words
        assert program == "curl"
        given: dict[str, list[str]] = {"-H": [], "-X": [], "--json": []}
        addresses = []
        while rest:
            word = rest.pop(0)
            if word in given:
                given[word].append(rest.pop(0))
            elif word != "-i":
                addresses.append(word)
        (url,) = addresses
        bodies = given["--json"]
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in given["-H"])]
        if bodies:
            headers += [("Content-Type", "application/json"), ("Accept", "application/json")]
        method = given["-X"][0] if given["-X"] else "POST" if bodies else "GET"
        return cls(url, method, headers, "".join(bodies))

    async def sent(self, client: httpx.AsyncClient, *, instead_of: str = "", at: str = "") -> httpx.Response:
        """To another place than the document says."""
        return await client.request(
            self.method, self.url.replace(instead_of, at), headers=self.headers, content=self.body
        )


def curls(text: str, host: str) -> list[Curl]:
    """Of a shell block, or several; those to this host."""
    lines = (line for line in text.replace("\\\n", " ").splitlines() if line.startswith("curl "))
    return [curl for curl in (Curl.of(shlex.split(line)) for line in lines) if host in curl.url]
