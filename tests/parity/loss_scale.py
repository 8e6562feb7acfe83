"""Steps of torch.amp.GradScaler with overflows that are forced: scaled gradients in, scales and weights out.

A vector of weights is fitted by torch.optim.SGD with momentum, weight decay and clipping. In three steps a gradient
becomes infinite or not a number, as it would where f16 overflows. Stored: the scaled gradients of each step, the
scale that they were made with, the norm after unscaling (0: none), and the weights after it.

Not run in tests: the stored file is. To make it again (a virtual environment with torch):
    python tests/parity/loss_scale.py tests/parity/goldens/loss_scale.json
"""

import json
import sys

import torch

STEPS, SIZE = 200, 5
OVERFLOWS = {17: float("inf"), 90: float("nan"), 91: float("-inf")}
RATES = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01, "clip": 0.5}


def run(growth_interval: int) -> dict:
    torch.manual_seed(7)
    weights = torch.nn.Parameter(torch.randn(SIZE))
    start = weights.detach().tolist()
    target = torch.randn(SIZE)
    optimizer = torch.optim.SGD([weights], lr=RATES["learning_rate"], momentum=RATES["momentum"],
                                weight_decay=RATES["weight_decay"])
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=growth_interval)
    steps = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        inputs = torch.randn(8, SIZE)
        loss = ((inputs @ (weights - target)) ** 2).mean()
        scale = scaler.get_scale()
        scaler.scale(loss).backward()
        if step in OVERFLOWS:
            weights.grad[step % SIZE] = OVERFLOWS[step]
        gradient = [value if abs(value) <= 3e38 else str(value) for value in weights.grad.tolist()]
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_([weights], RATES["clip"]).item()
        scaler.step(optimizer)
        scaler.update()
        steps.append({"scale": scale, "gradient": gradient, "norm": norm if abs(norm) <= 3e38 else 0,
                      "weights": weights.detach().tolist()})
    return {"growth_interval": growth_interval, "start": start, "steps": steps, "last_scale": scaler.get_scale()}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump({"torch": torch.__version__, "rates": RATES, "runs": [run(2000), run(40)]}, file)
        file.write("\n")
