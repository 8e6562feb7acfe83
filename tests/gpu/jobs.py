"""Jobs of `strata run`, by the programs of the pack."""

import array
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

GPT2_124M = dict(family="gpt2", layers=12, hidden=768, heads=12, ffn=3072, vocab=50304, context=1024, tied_embeddings=True)
QWEN_15B = dict(family="qwen2", layers=28, hidden=1536, heads=12, kv_heads=2, head_size=128, ffn=8960, vocab=151936,
                context=4096, tied_embeddings=True)
LLAMA_8B = dict(family="llama", layers=32, hidden=4096, heads=32, kv_heads=8, head_size=128, ffn=14336, vocab=128256,
                context=4096, rope={"theta": 500000})
TINY = dict(family="llama", layers=2, hidden=32, heads=4, kv_heads=2, ffn=64, vocab=256, context=64)


class JobError(Exception):
    """A job that failed; with its last words."""


def write_tokens(path: pathlib.Path, vocab: int, count: int):
    """Phrases of a fixed set, a small one for few words, in random order, as 16-bit tokens: something can be learned."""
    rng = random.Random(1)
    phrases = [[rng.randrange(min(vocab, 1 << 16)) for _ in range(16)] for _ in range(min(vocab // 128, 100))]
    tokens = array.array("H")
    while len(tokens) < count:
        tokens.extend(rng.choice(phrases))
    path.write_bytes(tokens.tobytes())


class Jobs:
    """Runs jobs in a folder of its own."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, env: dict, standin: bool):
        self.root, self.folder, self.runs = root, folder, 0
        self.env = env | {"HOME": str(folder), "STRATA_TEST_FOLDER": str(folder)}
        if standin:
            self.env["STRATA_GPU_STANDIN"] = "1"
        folder.mkdir(parents=True, exist_ok=True)

    def apart(self, name: str) -> "Jobs":
        """For jobs that run beside others of this one: what is left of them is ended by their own folder."""
        return Jobs(self.root, self.folder / name, self.env, False)

    def watched(self, env: dict) -> "Jobs":
        """The same, with more in their environment."""
        found = self.apart("watched")
        found.env |= env
        return found

    def tokens(self, vocab: int, count: int) -> str:
        path = self.folder / f"tokens-{vocab}-{count}.bin"
        if not path.exists():
            write_tokens(path, vocab, count)
        return str(path)

    def run(self, device: str, model: dict, train: dict, seconds: float, stop_after: int = 0, more: dict | None = None) -> list:
        """Step records. stop_after: so many are enough, and the job is ended. JobError: it failed, or took too long."""
        self.runs += 1
        place = self.folder / f"run-{self.runs}"
        place.mkdir()
        steps = train["sequence"] * train["global_batch"] * (train["steps"] + 1)
        job = {"model": model, "data": {"train": [{"path": self.tokens(model["vocab"], min(max(steps, 4096), 1 << 22))}]},
               "train": train, "resources": {"device": device}, "checkpoint": {"every_steps": 1000000, "keep": 1}, **(more or {})}
        (place / "job.yaml").write_text(json.dumps(job))
        metrics, log = place / "metrics.jsonl", place / "log"
        with log.open("w") as file:
            process = subprocess.Popen([self.root / "bin/strata", "run", "job.yaml", "--dir", "job", "--metrics", metrics],
                                       cwd=place, env=self.env, stdout=file, stderr=subprocess.STDOUT)
            enough = self.wait(process, metrics, stop_after, time.monotonic() + seconds)
            self.end(process)
        text = log.read_text(errors="replace").strip()
        records = read_records(metrics)
        shutil.rmtree(place)
        if not enough:
            raise JobError(f"not done within {seconds:.0f} s, {len(records)} steps" if process.returncode in (None, -9, -2, 130)
                           else "; ".join(text.splitlines()[-2:]))
        return records

    @staticmethod
    def wait(process, metrics: pathlib.Path, stop_after: int, end: float) -> bool:
        """Whether it has ended well, or has gone far enough."""
        while time.monotonic() < end:
            if stop_after and len(read_records(metrics)) >= stop_after:
                return True
            if process.poll() is not None:
                return process.returncode == 0
            time.sleep(0.05)
        return False

    def end(self, process):
        """Interrupted twice a job ends at once; whatever is left is of this folder and is killed."""
        for _ in range(2):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2)
        mark = f"STRATA_TEST_FOLDER={self.folder}".encode()
        for _ in range(20):
            left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_of(pid, mark)]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.poll()
            if not left:
                break
            time.sleep(0.05)


def is_of(pid: int, mark: bytes) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX" and mark in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def read_records(metrics: pathlib.Path) -> list:
    records = []
    with contextlib.suppress(OSError, ValueError):  # a last line that is being written
        for line in metrics.read_text().splitlines():
            records.append(json.loads(line))
    return records
