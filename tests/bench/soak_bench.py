"""Random faults against a real cluster that trains: the job must end with the numbers of a run without faults.

Run by ./dev bench soak [--faults N] [--seeds S,T…] [--clock] [--kinds a,b] [--results FOLDER]; as root for all kinds. A
cluster of `strata up` with three agents of which two train; every few seconds something happens to it (--list says what).
After each fault the job must take steps again, without anybody's help. A fault that must not disturb training (HARMLESS) may
not start the ranks anew; if one does, the run goes on, and fails at its end. At the end: every step once, losses bit for
bit those of `strata run`, and no process left. Each run leaves its figures in FOLDER; the last thing printed is the table
of all runs that are there, as docs/benchmarks has it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration"))
import proxy  # noqa: E402
import real_cluster  # noqa: E402

EVERY, STEPS_AT_ONCE = 25, 60_000
SETTLE_SECONDS = 1.5
BACK_SECONDS = 90  # until it trains again
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
HARMLESS = {"agent_kill", "agent_term", "agent_stop", "controller_kill", "controller_term", "controller_stop",
            "controller_sleeps", "control_plane_kill", "supervisor_kill", "clock_forward", "clock_back", "drain_other",
            "controller_cut", "node_cut_briefly", "connections_reset", "upgrade", "restore", "agent_ends_again",
            "storage_stall", "storage_stall_long"}
LONG_STALL_SECONDS = 60
STALLS = (("pread", "text.txt"), ("sync", ".safetensors"), ("write", ".safetensors"), ("sync", "controller.db"))
NODES = ("n0", "n1", "n2")
RESTORED_EPOCHS = 1_000_000  # the next epoch jumps by so many after a restore
# Need the scripts below, which libfaketime does not survive.
BETWEEN = {"controller_cut", "node_cut", "node_cut_briefly", "connections_reset", "upgrade", "restore"}
# In place of the agent: it goes through its node's proxy, where there is one. In place of the controller: a backup that lies
# ready takes the place of its state first. Both run what an upgrade has put beside them last.
AGENT = """#!/bin/bash
[ "$1" = stop ] && exec -a "$0" {real}/strata-worker "$@"
words=("$@")
for i in "${{!words[@]}}"; do
  [ "${{words[i]}}" = --node ] && node=${{words[i+1]}}
done
for i in "${{!words[@]}}"; do
  [ "${{words[i]}}" = --controller ] && [ -e {folder}/proxies/$node ] && words[i+1]=$(<{folder}/proxies/$node)
done
exec -a "$0" {real}/strata-worker "${{words[@]}}"
"""
CONTROLLER = """#!/bin/bash
if [ -e {folder}/backup.db ]; then
  rm -f {state}/controller.db*
  mv {folder}/backup.db {state}/controller.db
  set -- "$@" --restored
fi
exec -a "$0" {real}/strata-controller "$@"
"""


class Soak(real_cluster.RealCluster):
    """One soak; `options` and `figures` are set from outside."""

    options = None
    figures: dict = {}

    def runTest(self):
        self.random = random.Random(self.options.seed)
        self.offset = 0.0
        self.listen = f"unix:{self.folder}/controller.sock"
        self.start_cluster()
        self.wait_for(lambda: self.step() > EVERY, "the first steps")
        kinds = self.options.kinds or sorted(self.kinds())
        self.random.shuffle(kinds)  # a run that is shorter than the list leaves others out than the next
        for number in range(self.options.faults):
            self.one(number, kinds[number % len(kinds)] if number < len(kinds) else self.random.choice(kinds))
        self.finish()
        self.assertEqual(self.figures["harm"], [], "healthy jobs were harmed")

    # --- the cluster and its job

    def start_cluster(self):
        self.rules, self.stalling = self.folder / "slow", self.folder / "bin/slow_storage.so"
        subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-o", self.stalling, ROOT / "tests/integration/slow_storage.cc"],
                       check=True)
        self.env.update(LD_PRELOAD=str(self.stalling), STRATA_SLOW_STORAGE=str(self.rules))
        if self.options.clock:
            self.clock = self.folder / "clock"
            self.set_clock(0)
            self.env.update(LD_PRELOAD=f"{self.stalling} {FAKETIME}", FAKETIME_TIMESTAMP_FILE=str(self.clock),
                            FAKETIME_NO_CACHE="1", FAKETIME_DONT_FAKE_MONOTONIC="1")
        else:
            self.put_between()
        self.strata("up", "--agents", len(NODES), "--listen", self.listen, "--dir", self.cluster)
        self.data = self.folder / "data"
        self.data.mkdir()
        if os.geteuid() == 0:
            self.mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "soak", self.data]).returncode == 0
            if self.mounted:
                self.addCleanup(subprocess.run, ["umount", "-l", self.data])
        self.strata("submit", self.job("soak", STEPS_AT_ONCE), "--dir", self.data / "soak")

    def put_between(self):
        """Proxies between agents and controller, and scripts in place of both programs."""
        bin, real = self.folder / "bin", self.folder / "bin/real"
        real.mkdir()
        for name in ("strata-worker", "strata-controller", "strata-trainer"):
            (bin / name).rename(real / name)
        (bin / "strata-trainer").symlink_to(real / "strata-trainer")  # for strata run
        names = {"folder": self.folder, "real": real, "state": self.cluster / "controller"}
        for name, text in (("strata-worker", AGENT), ("strata-controller", CONTROLLER)):
            (bin / name).write_text(text.format(**names))
            (bin / name).chmod(0o755)
        (self.folder / "proxies").mkdir()
        self.proxies = {}
        for node in NODES:
            self.proxies[node] = proxy.Proxy(self.listen)
            self.addCleanup(self.proxies[node].close)
            (self.folder / "proxies" / node).write_text(self.proxies[node].address)

    def job(self, name: str, steps: int, priority: int = 0) -> pathlib.Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(f"""
model: {{family: llama, layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 128, vocab: 256}}
data: {{train: [{{path: {self.folder}/text.txt}}]}}
train: {{steps: {steps}, sequence: 64, global_batch: 8, micro_batch: 1, schedule: {{name: constant, warmup_steps: 5}}}}
parallel: {{data: 2, shard: zero1}}
resources: {{priority: {priority}}}
checkpoint: {{every_steps: {EVERY}, keep: 3}}
restart: {{max_without_progress: 1000}}
""")
        return path

    def step(self) -> int:
        """The last one that was recorded; 0: none, or its file is not there."""
        try:
            with open(self.data / "soak/metrics.jsonl", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                return json.loads(file.read().split(b"\n")[-2])["step"]
        except (OSError, IndexError, ValueError):
            return 0

    def epoch(self) -> int:
        for _ in range(200):
            asked = subprocess.run([self.folder / "bin/strata", "get", "job", "soak", "-o", "json"], env=self.env,
                                   stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder)
            if asked.returncode == 0:
                return json.loads(asked.stdout)["epoch"]
            time.sleep(0.1)
        self.fail(f"the controller does not answer: {asked.stderr}; {self.logs()}")

    # --- faults

    def kinds(self) -> dict:
        found = {name[6:]: getattr(self, name) for name in dir(self) if name.startswith("fault_")}
        left_out = BETWEEN if self.options.clock else {"clock_forward", "clock_back"}
        found = {name: fault for name, fault in found.items() if name not in left_out}
        if not getattr(self, "mounted", False):
            found.pop("disk_full", None)
        return found

    def one(self, number: int, kind: str):
        time.sleep(self.random.uniform(0.2, 2.0))
        epoch, before, began = self.epoch(), self.step(), time.monotonic()
        self.kinds()[kind]()
        over = time.monotonic()
        time.sleep(SETTLE_SECONDS)  # until what follows from it has begun
        goal = max(before, self.step()) + 2
        self.wait_for(lambda: self.step() >= goal, f"steps after {kind} (fault {number})", BACK_SECONDS)
        stood, after = time.monotonic() - over, self.epoch()
        restarts = sum(divmod(after - epoch, RESTORED_EPOCHS))
        print(f"{number:4} {kind:20} step {before:6}, epoch {epoch} -> {after}, {over - began:5.1f} s of it, trains {stood:5.1f} s later",
              flush=True)
        self.figures["faults"].append({"kind": kind, "seconds": stood, "restarts": restarts})
        if restarts > 1:
            print(f"     {self.events()}", flush=True)
        if kind in HARMLESS and restarts > 0:
            self.figures["harm"].append(f"{kind} (fault {number}): {self.events()}")
            print(f"     HARM: {self.events()}\n{self.logs()}", flush=True)

    def events(self) -> str:
        """The last of the job's, newest first, each kind once."""
        reasons = [f"{event['cause']}: {event['reason']}" for event in self.get("soak")["events"][:-20:-1]]
        return "; ".join(dict.fromkeys(reasons))

    def signal_one(self, program: str, number: int):
        found = self.processes(program)
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(found), number)

    def stop_for(self, pids: list, seconds: float):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def daemons(self) -> list:
        return self.processes("strata-controller") + self.processes("strata-worker")

    def fault_trainer_kill(self):
        self.signal_one("strata-trainer", signal.SIGKILL)

    def fault_trainer_term(self):
        self.signal_one("strata-trainer", signal.SIGTERM)

    def fault_trainer_segv(self):
        self.signal_one("strata-trainer", signal.SIGSEGV)

    def fault_trainer_stop(self):
        self.stop_for(self.processes("strata-trainer")[-1:], self.random.uniform(1, 5))

    def fault_trainers_kill(self):
        for pid in self.processes("strata-trainer"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def fault_agent_kill(self):
        self.signal_one("strata-worker", signal.SIGKILL)

    def fault_agent_term(self):
        self.signal_one("strata-worker", signal.SIGTERM)

    def fault_agent_ends_again(self):
        """Sooner than its supervisor finds fit, so that its node is without an agent for seconds."""
        for _ in range(3):
            self.fault_agent_term()
            time.sleep(self.random.uniform(0.2, 2))

    def fault_agent_stop(self):
        self.stop_for([self.random.choice(self.processes("strata-worker"))], self.random.uniform(0.5, 2))

    def fault_controller_kill(self):
        self.signal_one("strata-controller", signal.SIGKILL)

    def fault_controller_term(self):
        self.signal_one("strata-controller", signal.SIGTERM)

    def fault_controller_stop(self):
        self.stop_for(self.processes("strata-controller"), self.random.uniform(1, 8))

    def fault_controller_sleeps(self):
        """For longer than a lease; the trainers live on."""
        self.stop_for(self.processes("strata-controller"), 35)

    def fault_control_plane_kill(self):
        for pid in self.daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cut_for(self, nodes: list, seconds: float):
        for node in nodes:
            self.proxies[node].cut()
        time.sleep(seconds)
        for node in nodes:
            self.proxies[node].heal()

    def fault_controller_cut(self):
        """It is alive, and hears nobody for up to more than a lease."""
        self.cut_for(NODES, self.random.choice([2, 8, 40]))

    def fault_node_cut_briefly(self):
        """For less than a lease: what it does meanwhile proves that it lives."""
        self.cut_for([self.random.choice(NODES)], self.random.uniform(1, 20))

    def fault_node_cut(self):
        self.cut_for([self.random.choice(NODES)], 40)

    def fault_connections_reset(self):
        for _ in range(5):
            for each in self.proxies.values():
                each.reset()
            time.sleep(self.random.uniform(0.05, 0.5))

    def fault_upgrade(self):
        """Files are replaced by renaming, then controller and agents are started anew; the trainer is of another build."""
        real = self.folder / "bin/real"
        for name in ("strata-controller", "strata-worker", "strata-trainer"):
            shutil.copy2(real / name, real / f"{name}.next")
            if name == "strata-trainer":
                with open(real / f"{name}.next", "ab") as file:
                    file.write(b"\0")
            (real / f"{name}.next").rename(real / name)
        for pid in self.daemons():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            time.sleep(self.random.uniform(0, 1))

    def fault_restore(self):
        """The state of a few seconds ago."""
        backup = self.folder / "backup.next"
        self.strata("backup", "-o", backup)
        time.sleep(self.random.uniform(0, 5))
        self.signal_one("strata-controller", signal.SIGSTOP)  # it writes nothing after this
        backup.rename(self.folder / "backup.db")
        self.signal_one("strata-controller", signal.SIGKILL)
        self.wait_for(lambda: not (self.folder / "backup.db").exists() and self.answers(), "the restored controller")

    def fault_supervisor_kill(self):
        killed = self.processes("strata")
        self.signal_one("strata", signal.SIGKILL)
        self.wait_for(lambda: self.processes("strata") != killed, "the supervisor's end", 10)
        self.strata("up", "--dir", self.cluster)  # adopts what lives

    def fault_node_freeze(self):
        """An agent and the trainer below it."""
        trainer = self.random.choice(self.processes("strata-trainer"))
        try:
            parent = int(pathlib.Path(f"/proc/{trainer}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        self.stop_for([trainer, parent] if parent in self.processes("strata-worker") else [trainer], 6)

    def fault_node_kill(self):
        trainer = self.random.choice(self.processes("strata-trainer"))
        for pid in (int(pathlib.Path(f"/proc/{trainer}/stat").read_text().rpartition(")")[2].split()[1]), trainer):
            if pid > 1:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def release(self):
        """Nodes that were to blame too often are given another chance: else there is no room to move to."""
        self.strata("resume", "n0", "n1", "n2")

    def fault_drain_used(self):
        self.release()
        node = self.get("soak")["ranks"][0]["node"]
        self.strata("drain", node, "--wait", "--timeout", 60)
        self.strata("resume", node)

    def fault_drain_other(self):
        used = {rank["node"] for rank in self.get("soak")["ranks"]}
        self.release()
        node = next(name for name in ("n0", "n1", "n2") if name not in used)
        self.strata("drain", node, "--wait", "--timeout", 60)
        self.strata("resume", node)

    def fault_preempt(self):
        name = f"urgent-{self.random.getrandbits(32):08x}"
        self.strata("apply", self.policy())
        self.strata("submit", self.job(name, 30, priority=9))
        self.strata("wait", name, "--for=state=SUCCEEDED", "--timeout", 100)

    def policy(self) -> pathlib.Path:
        path = self.folder / "policy.yaml"
        path.write_text("scheduling: {min_run_seconds: 0}\n")
        return path

    def fault_down_up(self):
        self.strata("down", "--dir", self.cluster)
        self.strata("up", "--dir", self.cluster)

    def damage(self, how):
        folders = sorted((self.data / "soak/checkpoints").glob("step-*"))
        if folders:
            with contextlib.suppress(FileNotFoundError):
                how(folders[-1] / self.random.choice(["rank-0.safetensors", "rank-1.safetensors", "manifest.json"]))
        self.fault_trainers_kill()

    def fault_checkpoint_flipped(self):
        def flip(path):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        self.damage(flip)

    def fault_checkpoint_truncated(self):
        self.damage(lambda path: os.truncate(path, path.stat().st_size // 2))

    def fault_disk_full(self):
        filler = self.data / "filler"
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while True:
                file.write(b"\0" * (1 << 20))
        time.sleep(self.random.uniform(1, 4))
        filler.unlink(missing_ok=True)

    def stall(self, seconds: float):
        """What begins within two seconds takes so long; all else is as fast as ever."""
        operation, part = self.random.choice(STALLS)
        self.rules.write_text(f"{operation} {part} {seconds}\n")
        time.sleep(2)
        self.rules.unlink()
        print(f"     {operation} {part} takes {seconds:.1f} s", flush=True)

    def fault_storage_stall(self):
        self.stall(self.random.uniform(3, 12))

    def fault_storage_stall_long(self):
        self.stall(LONG_STALL_SECONDS)

    def set_clock(self, seconds: float):
        self.offset = seconds
        self.clock.write_text(f"{seconds:+.1f}")

    def fault_clock_forward(self):
        self.set_clock(self.offset + self.random.uniform(10, 100_000))

    def fault_clock_back(self):
        self.set_clock(self.offset - self.random.uniform(10, 100_000))

    # --- the end

    def finish(self):
        """It stops at a checkpoint; up to there its numbers are those of a run without faults."""
        self.strata("cancel", "soak")
        self.strata("wait", "soak", "--for=state=CANCELLED")
        found = self.numbers(self.data / "soak")
        self.assertEqual([step for step, _, _ in found], list(range(1, len(found) + 1)))
        self.down()
        env = {name: value for name, value in self.env.items() if "FAKETIME" not in name and name != "LD_PRELOAD"}
        subprocess.run([self.folder / "bin/strata", "run", self.job("soak", STEPS_AT_ONCE), "--set",
                        f"train.steps={len(found)}", "--dir", self.folder / "reference", "-q"], env=env, check=True,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(self.numbers(self.folder / "reference"), found)
        self.figures["steps"] = len(found)
        print(f"{len(found)} steps, every one once, losses and norms bit for bit those of a run without faults")


def run_seed(options, seed: int) -> dict:
    Soak.options = argparse.Namespace(**{**vars(options), "seed": seed})
    Soak.figures = {"seed": seed, "clock": options.clock, "faults": [], "harm": [], "steps": 0}
    result = unittest.TextTestRunner(verbosity=0).run(Soak())
    Soak.figures["passed"] = result.wasSuccessful()
    Soak.figures["problem"] = "".join(text for _, text in result.failures + result.errors)
    return Soak.figures


def table(runs: list) -> str:
    """In Markdown: by run, then by kind."""
    lines = ["| Run | Faults | Kinds | Steps | Starts spent | Result |", "|---|---|---|---|---|---|"]
    for run in runs:
        faults = run["faults"]
        result = ("as without faults" if run["passed"] else f"{len(run['harm'])} healthy jobs harmed" if run["harm"] else
                  "not finished") + ("" if run["steps"] else "; numbers not compared")
        lines.append(f"| seed {run['seed']}{', clocks' if run['clock'] else ''} | {len(faults)} | "
                     f"{len({fault['kind'] for fault in faults})} | {run['steps']:,} | "
                     f"{sum(fault['restarts'] for fault in faults)} | {result} |")
    by_kind: dict = {}
    for fault in (fault for run in runs for fault in run["faults"]):
        by_kind.setdefault(fault["kind"], []).append(fault)
    lines += ["", "| Kind | Count | Starts spent | Median s | Worst s |", "|---|---|---|---|---|"]
    for kind, faults in sorted(by_kind.items()):
        seconds = [fault["seconds"] for fault in faults]
        lines.append(f"| {kind}{' (harmless)' if kind in HARMLESS else ''} | {len(faults)} | "
                     f"{sum(fault['restarts'] for fault in faults)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |")
    lines.append(f"| all {len(by_kind)} | {sum(map(len, by_kind.values()))} | "
                 f"{sum(fault['restarts'] for faults in by_kind.values() for fault in faults)} | | |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=25, help="in each run")
    parser.add_argument("--seeds", type=lambda text: [int(each) for each in text.split(",")], default=[1], help="a run for each")
    parser.add_argument("--kinds", type=lambda text: text.split(","))
    parser.add_argument("--clock", action="store_true", help="clocks jump (libfaketime); without cuts, upgrades and restores")
    parser.add_argument("--list", action="store_true", help="the kinds of faults")
    parser.add_argument("--results", type=pathlib.Path, help="folder for figures: the table is of all that are in it")
    parser.add_argument("--binaries", default=str(ROOT / "out/bin"), help="folder of the programs")
    options = parser.parse_args()
    if options.list:
        print("\n".join(sorted(name[6:] for name in dir(Soak) if name.startswith("fault_"))))
        return 0
    programs = ["strata", "strata-controller", "strata-worker", "strata-trainer"]
    sys.argv[1:] = [os.path.join(options.binaries, name) for name in programs]
    if not all(shutil.which(path) for path in sys.argv[1:]):
        parser.error(f"{options.binaries} lacks programs: ./dev build makes them")
    runs = []
    for seed in options.seeds:
        print(f"seed {seed}", flush=True)
        runs.append(run_seed(options, seed))
        if options.results:
            options.results.mkdir(parents=True, exist_ok=True)
            (options.results / f"{'clock-' if options.clock else ''}{seed}.json").write_text(json.dumps(runs[-1], indent=1))
    if options.results:
        runs = [json.loads(path.read_text()) for path in sorted(options.results.glob("*.json"))]
    print(f"\n{table(runs)}")
    return 0 if all(run["passed"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
