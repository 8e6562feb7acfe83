// Programs of large models: seconds to build, lay out and verify them on one core, and the largest
// memory of the process that did it. One rank of a tensor group of 8 with four chunks; one stage
// that holds all layers and 64 micro-batches, or 16 stages and 16 micro-batches.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/passes/layout.h"
#include "program/readers/verify.h"
#include "program/testing/overlap.h"
#include "tests/programs/adapter_memory.h"

namespace strata {
namespace {

using program::ProgramSet;

constexpr int kTensor = 8;

model::ModelSpec Llama3(int64_t layers, int64_t hidden, int64_t heads, int64_t ffn) {
  // Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3.
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = 8,
          .head_size = 128,
          .ffn = ffn,
          .vocab = 128256,
          .context = 8192};
}

int64_t Scratch(program::CollectiveOp op, program::DType, int64_t bytes, int size) {
  if (op == program::CollectiveOp::kReduceScatter) return bytes * (size - 1);
  return op == program::CollectiveOp::kAllReduce ? bytes / size * (size - 1) : 0;
}

program::Template Update(const program::ParameterSet& set, const program::UpdateRange& range) {
  return model::EmitAdamW(set, {}, range);
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

struct Case {
  std::string name;
  model::ModelSpec spec;
  int stages = 1;
  int micro_batches = 64;
};

// Seconds of this thread on a core: other work on the machine does not count.
class Clock {
 public:
  double Lap() {
    const double before = std::exchange(last_, Now());
    return last_ - before;
  }

 private:
  static double Now() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  double last_ = Now();
};

std::vector<program::StagePrograms> Build(const Case& c, program::LayerGraph graph) {
  program::Plan plan{.groups = {.tensor = kTensor, .pipeline = c.stages},
                     .virtual_shards = 0,
                     .global_batch = c.micro_batches,
                     .gradient_clip = 1,
                     .tier = program::Tier::kDevice,
                     .scratch = Scratch};
  auto built = program::Compose(std::move(graph), plan, Update);
  if (!built.ok()) Fail(built.status());
  return *std::move(built);
}

// Composing lays out; that part of it is measured by doing it once more.
double LayoutSeconds(std::vector<program::StagePrograms> built) {
  for (program::StagePrograms& stage : built)
    stage.set = program::WithoutLayout(std::move(stage.set));
  Clock clock;
  for (program::StagePrograms& stage : built) {
    if (const absl::Status status = program::LayOut(stage.set); !status.ok()) Fail(status);
  }
  return clock.Lap();
}

void Measure(const Case& c) {
  auto graph = model::EmitFamily(
      c.spec, {.sequence = 8192, .prefill_chunk = 0, .tensor_degree = kTensor, .tensor_chunks = 4});
  if (!graph.ok()) Fail(graph.status());
  Clock clock;
  std::vector<program::StagePrograms> built = Build(c, *std::move(graph));
  const double composed = clock.Lap();
  std::vector<const ProgramSet*> stages;
  size_t instructions = 0, slots = 0, actions = 0;
  for (const program::StagePrograms& stage : built) {
    stages.push_back(&stage.set);
    instructions += stage.set.programs[0].instructions.size();
    slots += stage.set.programs[0].slots.size();
    for (const program::Instruction& i : stage.set.programs[0].instructions) {
      actions += i.template_index < 0 ? 1 : stage.set.templates[i.template_index].ops.size();
    }
  }
  const program::Mesh mesh{.sizes = built[0].set.groups};
  clock.Lap();
  const absl::Status status = program::Verify(stages, "train", mesh);
  if (!status.ok()) Fail(status);
  const double verify = clock.Lap();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double layout = LayoutSeconds(std::move(built));
  std::printf("%-18s %6d %6d %12zu %8zu %9zu %8.2f %8.2f %8.2f %8.2f %9.0f\n", c.name.c_str(),
              c.stages, c.micro_batches, instructions, slots, actions, composed - layout, layout,
              verify, composed + verify, static_cast<double>(usage.ru_maxrss) / 1024);
  std::fflush(stdout);
}

// In a process of its own, for a memory peak of its own.
bool Run(const Case& c) {
  const pid_t child = fork();
  if (child == 0) {
    Measure(c);
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What the memory reader says of adapters beside 8B, and arithmetic beside it.
bool PrintAdapterMemory(std::optional<program::DType> quantised) {
  const auto memory = testing::MemoryOfAdapters8B(quantised);
  if (!memory.ok()) Fail(memory.status());
  const auto bytes = static_cast<double>(memory->weights_and_state());
  std::printf(
      "8B %s %s rank 16, sequence 2048, recompute: %.3f GB of weights and state, arithmetic "
      "%.3f GB (%+.2f %%); adapters %lld, quantised %lld, others %lld; arena %.3f GB\n",
      quantised ? "qlora" : "lora", quantised ? Name(*quantised) : "f32", bytes / 1e9,
      memory->expected() / 1e9, 100 * (bytes / memory->expected() - 1),
      static_cast<long long>(memory->trained), static_cast<long long>(memory->quantised),
      static_cast<long long>(memory->frozen),
      static_cast<double>(memory->memory.arena_bytes) / 1e9);
  return true;
}

int Main(const std::string& only) {
  const std::vector<Case> cases = {
      {"8B", Llama3(32, 4096, 32, 14336)},
      {"70B", Llama3(80, 8192, 64, 28672)},
      {"405B", Llama3(126, 16384, 128, 53248)},
      {"405B pipeline", Llama3(126, 16384, 128, 53248), 16, 16},
  };
  std::printf("%-18s %6s %6s %12s %8s %9s %8s %8s %8s %8s %9s\n", "model", "stages", "micro",
              "instructions", "slots", "actions", "build s", "layout s", "verify s", "sum s",
              "peak MiB");
  std::fflush(stdout);
  bool good = true;
  using program::DType;
  for (const std::optional<DType> quantised :
       {std::optional<DType>(), {DType::kNf4}, {DType::kNf4F32}, {DType::kInt8}}) {
    if (only.empty() || only == "adapters") good = PrintAdapterMemory(quantised) && good;
  }
  for (const Case& c : cases) {
    if (only.empty() || c.name == only) good = Run(c) && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc > 1 ? argv[1] : ""); }
