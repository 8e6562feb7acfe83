"""DeepSpeed's side of offload_bench.py: offload_bench_deepspeed.py SPEC. A number of steps on stdin is answered with
their seconds and bytes read and written, a JSON object on one line.

SPEC: model, batch, sequence, precision, threads, swap: the folder on SSD, or none: everything stays in memory. With it
this is ZeRO-Infinity: stage 3, parameters, gradients and optimizer state on NVMe. Buffers are as small as the model's
largest tensor allows; the sub-groups of a step as small as that tensor, too, so that reads and writes overlap updates.
"""

import json
import os
import pathlib
import sys
import time

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=os.environ.get("MASTER_PORT", "29511"))
answers = os.fdopen(os.dup(1), "w")  # libraries print, too
os.dup2(2, 1)

import deepspeed  # noqa: E402
import torch  # noqa: E402
# Before zero.Init replaces the constructors of tensors, after which they cannot be imported.
import torch._dynamo  # noqa: E402, F401
from train_bench_torch import build, transformers  # noqa: E402

transformers.GPT2LMHeadModel  # is imported when it is first named


RATES = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def config(spec) -> dict:
    hidden = spec["model"]["hidden"]
    largest, layer = spec["model"]["vocab"] * hidden, 4 * hidden * hidden + 2 * hidden * spec["model"]["ffn"]
    found = {
        "train_micro_batch_size_per_gpu": spec["batch"],
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 0},
        "steps_per_print": 1 << 30,
    }
    if spec["precision"] == "bf16":
        found["bf16"] = {"enabled": True}
    if spec["swap"]:
        found["optimizer"] = {"type": "AdamW", "params": RATES}
        swap = {"device": "nvme", "nvme_path": spec["swap"], "pin_memory": False}
        found["zero_optimization"] = {
            "stage": 3,
            "sub_group_size": largest,
            # A layer has four tensors that are swapped: this one's, the next one's, the embedding.
            "offload_param": swap | {"buffer_count": 10, "buffer_size": largest, "max_in_cpu": 0},
            "stage3_prefetch_bucket_size": layer,
            "stage3_max_live_parameters": layer,
            "stage3_max_reuse_distance": 0,
            "offload_optimizer": swap | {"buffer_count": 12, "pipeline_read": True, "pipeline_write": True},
            # Nothing stays in memory because it is small.
            "stage3_param_persistence_threshold": 0,
        }
        found["aio"] = {"block_size": 1 << 20, "queue_depth": 8, "single_submit": False, "overlap_events": True,
                        "intra_op_parallelism": 1}
    return found


def moved() -> tuple:
    """Bytes that this process had the disk read and write."""
    counters = dict(line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())
    return int(counters["read_bytes"]), int(counters["write_bytes"])


def main():
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    settings = config(spec)
    if spec["swap"]:
        with deepspeed.zero.Init(config_dict_or_path=settings):
            model = build(spec)
    else:
        model = build(spec)
    # In memory PyTorch's own update; that of offload is DeepSpeed's.
    optimizer = None if spec["swap"] else torch.optim.AdamW(model.parameters(), fused=True, **RATES)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), optimizer=optimizer,
                                      config=settings)
    tokens = torch.randint(256, (spec["batch"], spec["sequence"]))

    def step():
        begin = time.perf_counter()
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        return time.perf_counter() - begin, float(loss)

    print(json.dumps({"versions": f"DeepSpeed {deepspeed.__version__}, PyTorch {torch.__version__}"}), file=answers,
          flush=True)
    for line in sys.stdin:
        before, seconds, losses = moved(), [], []
        for _ in range(int(line)):
            taken, loss = step()
            seconds.append(taken)
            losses.append(loss)
        after = moved()
        print(json.dumps({"seconds": seconds, "losses": losses, "read_bytes": after[0] - before[0],
                          "written_bytes": after[1] - before[1]}), file=answers, flush=True)


if __name__ == "__main__":
    main()
