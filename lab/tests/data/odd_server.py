"""A server that does one thing wrong: PORT ROOT MODE [AFTER], from its AFTERth answer on (`late`: connection)."""

import asyncio
import os
import sys

PORT, ROOT, MODE = int(sys.argv[1]), sys.argv[2], sys.argv[3]
AFTER = int(sys.argv[4]) if len(sys.argv) > 4 else 0
FILES = {}
answered = 0
connected = 0


def body_of(target):
    if target not in FILES:
        try:
            with open(ROOT + target, "rb") as file:
                FILES[target] = file.read()
        except OSError:
            FILES[target] = None
    return FILES[target]


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        global connected
        connected += 1
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, self.data = self.data.split(b"\r\n\r\n", 1)
            self.answer(head.split()[1].decode())

    def answer(self, target):
        global answered
        answered += 1
        is_odd = answered > AFTER
        status, body = "200 OK", body_of(target)
        if body is None:
            status, body = "404 Not Found", b"none\n"
        if is_odd and MODE == "status":
            status = "404 Not Found"
        elif MODE == "late" and connected > AFTER:
            status = "404 Not Found"
        elif is_odd and MODE == "length":
            body = body[:-1]
        elif is_odd and MODE == "hash":
            body = b"x" * len(body)
        elif is_odd and MODE == "drop":
            return self.transport.close()
        elif is_odd and MODE == "die":
            sys.stderr.write("I cannot go on\n")
            sys.stderr.flush()
            os._exit(3)
        elif is_odd and MODE == "stray":
            os.sched_setaffinity(0, range(os.cpu_count()))
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        if is_odd and MODE == "cut":
            self.transport.write(head + body[:-1])
            return self.transport.close()
        self.transport.write(head + body)


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", PORT)
    await server.serve_forever()


asyncio.run(main())
