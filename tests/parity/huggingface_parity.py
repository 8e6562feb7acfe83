"""Hugging Face directories in and out, against transformers: logits, greedy text, and tensors after a round trip.

For each family a tiny random model is saved by transformers in several ways (f32, bf16, f16, in one file or in
several). Then
  strata eval --dump-logits     within 1e-4 of the largest logit of transformers' in f32
  strata generate               the same greedy text
  strata export DIR             the same tensors, bit by bit, which transformers loads to the same logits
  strata run, strata export     the same tensors after a step with learning rate 0
Not run in tests: it needs torch and transformers (5.24 when it was written). From the tree's root, after ./dev build:
    python tests/parity/huggingface_parity.py [--bin out/bin] [--families llama,gpt2] [--seed 1] [--keep DIR]
With --goldens DIR the small directories and what is expected of them are written there, for
tests/integration/huggingface_test.py, and nothing is compared.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import safetensors.torch
import torch
import transformers

SEQUENCE, WINDOWS, TOKENS = 40, 2, 40
PROMPT = "In the beginning"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def llama3(theta):
    return {"rope_type": "llama3", "rope_theta": theta, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}


def configs() -> dict:
    """Odd sizes on purpose: three or five heads, heads of 10 or 40, vocabularies of no special size."""
    common = dict(vocab_size=261, num_hidden_layers=3, max_position_embeddings=96, initializer_range=0.15,
                  bos_token_id=None, eos_token_id=None, pad_token_id=None)
    small = dict(common, hidden_size=30, intermediate_size=44, num_attention_heads=3, num_key_value_heads=1)
    wide = dict(common, hidden_size=48, intermediate_size=53, num_attention_heads=6, num_key_value_heads=3, head_dim=10)
    gemma = dict(common, hidden_size=24, intermediate_size=37, num_attention_heads=3, num_key_value_heads=1, head_dim=40,
                 sliding_window=9, query_pre_attn_scalar=24)
    layers = ["sliding_attention", "full_attention", "sliding_attention"]
    return {
        "gpt2": transformers.GPT2Config(
            vocab_size=261, n_embd=30, n_head=3, n_layer=3, n_positions=96, initializer_range=0.15, n_inner=44,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None),
        "llama": transformers.LlamaConfig(**small, rope_parameters=llama3(1e4), tie_word_embeddings=True),
        "llama_bias": transformers.LlamaConfig(**wide, attention_bias=True, mlp_bias=True),
        "mistral": transformers.MistralConfig(**wide, sliding_window=11),
        "qwen2": transformers.Qwen2Config(**small, use_sliding_window=True, sliding_window=8, max_window_layers=1,
                                          rope_parameters={"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
                                                           "original_max_position_embeddings": 24}),
        "qwen3": transformers.Qwen3Config(**wide, rope_parameters={"rope_type": "linear", "rope_theta": 1e5,
                                                                   "factor": 2.0}),
        "gemma2": transformers.Gemma2Config(**gemma, attn_logit_softcapping=2.0, final_logit_softcapping=4.0),
        "gemma3": transformers.Gemma3TextConfig(
            **gemma, layer_types=layers,
            rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}),
        "phi3": transformers.Phi3Config(**dict(small, hidden_size=48), original_max_position_embeddings=32,
                                        rope_parameters={"rope_type": "longrope", "rope_theta": 1e4,
                                                         "partial_rotary_factor": 0.75,
                                                         "original_max_position_embeddings": 32,
                                                         "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
                                                         "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
    }


def make_model(config, seed: int):
    """A random model whose norms and biases are no ones and zeros."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                             attn_implementation="eager").eval()


@torch.no_grad()
def logits_of(model, windows) -> numpy.ndarray:
    return model(torch.from_numpy(windows.astype(numpy.int64)), use_cache=False).logits.float().numpy()


@torch.no_grad()
def greedy(model, prompt: bytes) -> bytes:
    """As transformers generates, among the 256 bytes, as a model without a tokenizer writes."""
    given = torch.tensor([list(prompt)])
    made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=TOKENS, do_sample=False,
                          suppress_tokens=list(range(256, model.config.vocab_size)) or None, pad_token_id=0)
    return bytes(made[0, len(prompt):].tolist())


def stored(folder) -> dict:
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(path))
    return tensors


def same_bits(a: dict, b: dict) -> str:
    """Empty, or what differs. A head that is tied may be stored or not."""
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            return f"{name} is in one alone"
        if a[name].dtype != b[name].dtype or a[name].shape != b[name].shape:
            return f"{name}: {a[name].dtype} {tuple(a[name].shape)}, {b[name].dtype} {tuple(b[name].shape)}"
        if not torch.equal(a[name].contiguous().view(torch.uint8), b[name].contiguous().view(torch.uint8)):
            return f"{name} has other bytes"
    return ""


class Strata:
    def __init__(self, binaries: pathlib.Path, folder: pathlib.Path):
        self.binary, self.folder = binaries / "strata", folder

    def __call__(self, *arguments) -> bytes:
        done = subprocess.run([self.binary, *map(str, arguments)], cwd=self.folder, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"strata {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr.decode()}")
        return done.stdout


def write_data(path: pathlib.Path, vocab: int, seed: int) -> numpy.ndarray:
    tokens = numpy.random.default_rng(seed).integers(0, vocab, SEQUENCE * WINDOWS + 1).astype("<u2")
    tokens.tofile(path)
    return tokens[:SEQUENCE * WINDOWS].reshape(WINDOWS, SEQUENCE)


JOB = """
model: {{from: {model}}}
data: {{train: [{{path: {data}}}]}}
train: {{steps: 1, sequence: {sequence}, global_batch: 1, optimizer: {{learning_rate: 0, weight_decay: 0}}}}
"""


class Case:
    def __init__(self, strata, folder: pathlib.Path, name: str, seed: int):
        self.strata, self.folder, self.name = strata, folder, name
        self.model = folder / "model"
        self.failures = []
        self.data = folder / "tokens.bin"
        self.windows = write_data(self.data, 261, seed)

    def check(self, what: str, problem: str):
        if problem:
            self.failures.append(f"{self.name}: {what}: {problem}")

    def logits(self, folder, reference):
        dump = self.folder / "logits.safetensors"
        self.strata("eval", "--from", folder, "--data", self.data, "--sequence", SEQUENCE, "--dump-logits", dump)
        found = safetensors.torch.load_file(dump)["logits"].numpy()
        expected = logits_of(reference, self.windows)
        error = float(numpy.abs(found - expected).max() / numpy.abs(expected).max())
        print(f"{self.name:28} logits differ by {error:.1e} of the largest", flush=True)
        self.check("logits", f"{error:.1e} of the largest" if not error < 1e-4 else "")

    def text(self, reference):
        found = self.strata("generate", "--from", self.model, "--prompt", PROMPT, "--tokens", TOKENS, "--temperature", 0)
        expected = PROMPT.encode() + greedy(reference, PROMPT.encode()) + b"\n"
        self.check("greedy text", f"{found!r}, not {expected!r}" if found != expected else "")

    def exported(self, source, what: str, reference):
        out = self.folder / f"out-{what}"
        self.strata("export", source, "-o", out)
        self.check(f"tensors of {what}", same_bits(stored(self.model), stored(out)))
        with torch.no_grad():
            difference = numpy.abs(logits_of(load(out), self.windows) - logits_of(reference, self.windows)).max()
        self.check(f"transformers' logits of {what}", f"differ by {difference}" if difference != 0 else "")

    def trained(self):
        path = self.folder / "job.yaml"
        path.write_text(JOB.format(model=self.model, data=self.data, sequence=SEQUENCE))
        self.strata("run", path, "--dir", self.folder / "run")
        return self.folder / "run" / "checkpoints"

    def run(self, train: bool):
        reference = load(self.model)
        self.logits(self.model, reference)
        self.text(reference)
        self.exported(self.model, "the directory", reference)
        if train:
            self.exported(self.trained(), "a checkpoint", reference)


VARIANTS = [("f32", "5GB"), ("bf16", "8KB"), ("f16", "5GB")]


def save(model, folder: pathlib.Path, kind: str, shard: str):
    model.to(TYPES[kind]).save_pretrained(folder, max_shard_size=shard)


GOLDENS = {"llama": ("bf16", "8KB"), "gpt2": ("bf16", "5GB"), "qwen2": ("f16", "5GB"), "gemma3": ("bf16", "16KB"),
           "phi3": ("bf16", "5GB")}
GOLDEN_VOCAB = 131


def write_goldens(folder: pathlib.Path, seed: int):
    """Small directories, and what transformers makes of them."""
    shutil.rmtree(folder, ignore_errors=True)
    expected = {}
    for number, (name, (kind, shard)) in enumerate(GOLDENS.items()):
        config = configs()[name]
        config.vocab_size, config.num_hidden_layers = GOLDEN_VOCAB, 2
        if getattr(config, "layer_types", None):
            config.layer_types = ["sliding_attention", "full_attention"]
        target = folder / name
        save(make_model(config, seed + number), target, kind, shard)
        windows = write_data(folder / f"{name}.bin", GOLDEN_VOCAB, seed + number)
        reference = load(target)
        logits = logits_of(reference, windows)
        chosen = logits[:, ::13, ::17]
        expected[name] = {"sequence": SEQUENCE, "every": [13, 17], "largest": float(numpy.abs(logits).max()),
                          "logits": [[[round(float(x), 6) for x in row] for row in window] for window in chosen],
                          "prompt": PROMPT, "text": list(greedy(reference, PROMPT.encode()))}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("out/bin"))
    parser.add_argument("--families", default=",".join(configs()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-train", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="work there, and leave it")
    parser.add_argument("--goldens", type=pathlib.Path)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if arguments.goldens:
        write_goldens(arguments.goldens, arguments.seed)
        return 0
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="strata-parity-"))
    failures = []
    for name in arguments.families.split(","):
        for kind, shard in VARIANTS:
            case_folder = folder / f"{name}-{kind}"
            case_folder.mkdir(parents=True, exist_ok=True)
            save(make_model(configs()[name], arguments.seed), case_folder / "model", kind, shard)
            case = Case(Strata(arguments.bin.resolve(), case_folder), case_folder, f"{name} {kind}", arguments.seed)
            try:
                case.run(train=not arguments.no_train)
            except RuntimeError as error:
                case.failures.append(f"{case.name}: {error}")
            failures += case.failures
    if not arguments.keep:
        shutil.rmtree(folder)
    print("\n".join(failures) or "all is the same")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
