"""A user-space TCP proxy that can be cut, healed and reset: a network fault between programs that know nothing of it."""

import contextlib
import socket
import struct
import threading

CHUNK = 64 << 10


class Proxy:
    """Listens on a loopback port and forwards each connection to `target` (HOST:PORT or unix:PATH)."""

    def __init__(self, target: str):
        self.target = target
        self.open = threading.Event()
        self.open.set()
        self.connections = set()
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Nothing arrives any more, in both directions; no end notices more than that."""
        self.open.clear()

    def heal(self):
        """What was under way arrives."""
        self.open.set()

    def reset(self):
        """All connections end at once, with an RST on both sides."""
        with self.lock:
            ended, self.connections = self.connections, set()
        for end in ended:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RD)
            with contextlib.suppress(OSError):
                end.close()

    def close(self):
        self.listener.close()
        self.reset()
        self.open.set()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket):
        self.open.wait()
        try:
            far = self._reach()
        except OSError:
            near.close()
            return
        with self.lock:
            self.connections |= {near, far}
        for ends in (near, far), (far, near):
            threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _reach(self) -> socket.socket:
        if self.target.startswith("unix:"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(self.target.removeprefix("unix:"))
            return far
        host, _, port = self.target.rpartition(":")
        return socket.create_connection((host, int(port)))

    def _forward(self, source: socket.socket, sink: socket.socket):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self.open.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
            return
        for end in source, sink:
            with contextlib.suppress(OSError):
                end.close()
