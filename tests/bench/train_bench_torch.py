"""PyTorch's side of train_bench.py: train_bench_torch.py SPEC. A mode on stdin, eager or compiled, is answered with the
median seconds of some optimizer steps. The modes share weights and optimizer; each is warm before it is timed."""

import json
import statistics
import sys
import time

import torch
import transformers


def build(spec):
    model, sequence = spec["model"], spec["sequence"]
    common = dict(vocab_size=model["vocab"], attn_implementation="sdpa", use_cache=False,
                  tie_word_embeddings=model.get("tied_embeddings") == "true")
    if model["family"] == "gpt2":
        config = transformers.GPT2Config(n_layer=model["layers"], n_embd=model["hidden"], n_head=model["heads"],
                                         n_inner=model["ffn"], n_positions=sequence, resid_pdrop=0.0, embd_pdrop=0.0,
                                         attn_pdrop=0.0, **common)
        built = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(hidden_size=model["hidden"], num_hidden_layers=model["layers"],
                                          num_attention_heads=model["heads"], num_key_value_heads=model["kv_heads"],
                                          intermediate_size=model["ffn"], max_position_embeddings=sequence, **common)
        built = transformers.LlamaForCausalLM(config)
    if spec["lora"]:
        import peft
        built = peft.get_peft_model(built, peft.LoraConfig(
            r=spec["lora"]["rank"], lora_alpha=spec["lora"]["alpha"], target_modules=spec["lora"]["targets"],
            fan_in_fan_out=model["family"] == "gpt2"))
    return built.train()


def main():
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    torch.manual_seed(1)
    model = build(spec)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    tokens = torch.randint(256, (spec["batch"], spec["sequence"]))
    callables = {"eager": model}
    if "compiled" in spec["modes"]:
        callables["compiled"] = torch.compile(model)

    clock = time.process_time if spec["clock"] == "cpu" else time.perf_counter

    def step(run):
        begin = clock()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=spec["precision"] == "bf16"):
            loss = run(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return (clock() - begin) / (spec["threads"] if spec["clock"] == "cpu" else 1)

    print(torch.__version__, flush=True)
    warm = set()
    for line in sys.stdin:
        mode = line.strip()
        for _ in range(1 if mode in warm else 2):
            step(callables[mode])
        warm.add(mode)
        print(statistics.median(step(callables[mode]) for _ in range(spec["steps"])), flush=True)


if __name__ == "__main__":
    main()
