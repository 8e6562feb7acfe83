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

#include "absl/strings/str_cat.h"
#include "model/families/llama.h"
#include "model/optimizer/adamw.h"
#include "program/builder/assembler.h"
#include "program/builder/pipeline.h"
#include "program/passes/layout.h"
#include "program/readers/verify.h"

namespace strata {
namespace {

using program::Operand;
using program::ProgramSet;
using program::Role;

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

program::Template Update(const program::ParameterSet& set, int64_t count) {
  return model::EmitAdamW(set, {}, count);
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

// All layers on one stage: forward and backward of each micro-batch, one after the other.
class OneStage {
 public:
  OneStage(program::LayerGraph graph, int micro_batches)
      : graph_(std::move(graph)),
        micro_batches_(micro_batches),
        assembler_(set_, program::Tier::kDevice) {
    for (program::ParameterSet& set : graph_.sets) program::FlattenSet(set, 1);
    set_.groups.tensor = kTensor;
    set_.templates = graph_.templates;
    set_.sets = graph_.sets;
  }

  ProgramSet Run() {
    AddState();
    for (int m = 0; m < micro_batches_; ++m) {
      activations_.assign(graph_.layers.size(), -1);
      saved_.assign(graph_.layers.size(), {});
      stream_ = -1;
      for (size_t l = 0; l + 1 < graph_.layers.size(); ++l) Call(l, m, false);
      for (size_t l = graph_.layers.size(); l-- > 0;) Call(l, m, true);
    }
    Finish();
    return std::move(set_);
  }

 private:
  int Transient(const std::string& name, int64_t bytes) {
    return assembler_.AddTransient(name, program::SlotClass::kActivations, bytes);
  }

  void AddState() {
    const auto persistent = [&](const std::string& name, int64_t bytes, bool versioned) {
      return assembler_.AddPersistent(name, program::SlotClass::kParameters, bytes, versioned);
    };
    set_.scalars = persistent("scalars", program::kScalarBytes, false);
    for (const program::Constant& constant : graph_.constants)
      constants_.push_back(persistent(constant.name, constant.bytes, false));
    for (const program::ParameterSet& set : graph_.sets) {
      parameters_.push_back(persistent(set.name, set.bytes(), true));
      for (const char* moment : {" first moment", " second moment"})
        moments_.push_back(persistent(absl::StrCat(set.name, moment), set.bytes(), true));
    }
    assembler_.BeginProgram("train");
    tokens_ = Transient("tokens", graph_.tokens() * 4 * micro_batches_);
    targets_ = Transient("targets", graph_.tokens() * 4 * micro_batches_);
    loss_ = Transient("loss", 8);
    Operand tokens = program::Whole(tokens_, graph_.tokens() * 4 * micro_batches_);
    tokens.access = program::Access::kWrite;
    Operand targets = tokens;
    targets.slot = targets_;
    assembler_.CallOp({.kind = program::OpKind::kLoadBatch}, program::Purpose::kLoad, "load batch",
                      {tokens, targets});
    assembler_.Zero(program::Whole(loss_, 8), program::Purpose::kLoad, "zero loss");
    gradients_.assign(graph_.sets.size(), -1);
    partial_.assign(graph_.sets.size(), 0);
  }

  void Call(size_t layer, int micro, bool backward) {
    const program::Layer& of = graph_.layers[layer];
    const int index = backward ? of.templates.backward : of.templates.forward;
    const program::Template tmpl = set_.templates[index];
    for (size_t f = 0; f < tmpl.formals.size(); ++f) {
      if (tmpl.formals[f].role == Role::kGradients) BeginGradient(tmpl, f, of);
    }
    const program::Purpose purpose =
        backward ? program::Purpose::kBackward : program::Purpose::kForward;
    assembler_.Call(
        index, purpose, absl::StrCat(Name(purpose), " ", of.name, " micro ", micro),
        [&](const program::Formal& formal) { return Bind(formal, layer, micro, backward); });
  }

  // With the mark that the template's ops make.
  void BeginGradient(const program::Template& tmpl, size_t formal, const program::Layer& layer) {
    const int set = layer.sets[tmpl.formals[formal].index];
    if (gradients_[set] >= 0) return;
    for (const program::Op& op : tmpl.ops) {
      for (const Operand& operand : op.operands) {
        if (operand.slot == static_cast<int>(formal)) partial_[set] = operand.partial;
      }
    }
    gradients_[set] =
        Transient(absl::StrCat("gradient of ", graph_.sets[set].name), graph_.sets[set].bytes());
    assembler_.Zero(Gradient(set, partial_[set]), program::Purpose::kBackward, "zero gradient");
  }

  Operand Gradient(int set, program::Partial partial) const {
    Operand operand = program::Whole(gradients_[set], graph_.sets[set].bytes());
    operand.partial = partial;
    return operand;
  }

  Operand Bind(const program::Formal& formal, size_t layer, int micro, bool backward) {
    const program::Layer& of = graph_.layers[layer];
    const auto name = [&] { return absl::StrCat(formal.name, " of ", of.name, " micro ", micro); };
    switch (formal.role) {
      case Role::kInput:
        return program::Whole(activations_[layer - 1], formal.bytes);
      case Role::kOutput:
        activations_[layer] = Transient(name(), formal.bytes);
        return program::Whole(activations_[layer], formal.bytes);
      case Role::kSaved: {
        std::vector<int>& saved = saved_[layer];
        if (!backward) saved.resize(std::max<size_t>(saved.size(), formal.index + 1), -1);
        if (!backward) saved[formal.index] = Transient(name(), formal.bytes);
        return program::Whole(saved[formal.index], formal.bytes);
      }
      case Role::kGradientStream:
        if (stream_ < 0) stream_ = Transient(name(), formal.bytes);
        return program::Whole(stream_, formal.bytes);
      case Role::kParameters:
        return program::Whole(parameters_[of.sets[formal.index]], formal.bytes);
      case Role::kGradients: {
        const int set = of.sets[formal.index];
        return Gradient(set, partial_[set]);
      }
      case Role::kTokens:
      case Role::kTargets:
        return {.slot = formal.role == Role::kTokens ? tokens_ : targets_,
                .offset = micro * graph_.tokens() * 4,
                .bytes = formal.bytes};
      case Role::kLoss:
        return program::Whole(loss_, 8);
      case Role::kScalars:
        return program::Whole(set_.scalars, formal.bytes);
      case Role::kConstants:
        return program::Whole(constants_[formal.index], formal.bytes);
      default:
        return {};
    }
  }

  void Finish() {
    for (size_t s = graph_.sets.size(); s-- > 0;) {
      if (partial_[s] == 0) continue;
      const int64_t bytes = graph_.sets[s].bytes();
      assembler_.Collective({.op = program::CollectiveOp::kAllReduce,
                             .group = program::Group::kTensor,
                             .bytes = bytes},
                            program::Purpose::kReduce, program::Stream::kGradients,
                            absl::StrCat("reduce ", graph_.sets[s].name),
                            Gradient(static_cast<int>(s), partial_[s]),
                            Gradient(static_cast<int>(s), 0), Scratch);
    }
    for (size_t s = 0; s < graph_.sets.size(); ++s) {
      const int tmpl = static_cast<int>(set_.templates.size());
      set_.templates.push_back(Update(graph_.sets[s], graph_.sets[s].elements));
      assembler_.Call(tmpl, program::Purpose::kUpdate, absl::StrCat("update ", graph_.sets[s].name),
                      [&](const program::Formal& formal) { return BindUpdate(formal, s); });
      assembler_.last().predicate = program::Predicate{program::Scalar::kApply};
    }
  }

  Operand BindUpdate(const program::Formal& formal, size_t set) const {
    Operand operand = program::Whole(-1, formal.bytes);
    if (formal.role == Role::kParameters) {
      operand.slot = parameters_[set], operand.version = formal.index;
    } else if (formal.role == Role::kState) {
      operand.slot = moments_[2 * set + formal.index % 2], operand.version = formal.index / 2;
    } else {
      operand.slot = formal.role == Role::kGradients ? gradients_[set] : set_.scalars;
    }
    return operand;
  }

  program::LayerGraph graph_;
  const int micro_batches_;
  ProgramSet set_;
  program::Assembler assembler_;
  std::vector<int> constants_, parameters_, moments_, gradients_, activations_;
  std::vector<program::Partial> partial_;
  std::vector<std::vector<int>> saved_;
  int tokens_ = -1, targets_ = -1, loss_ = -1, stream_ = -1;
};

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

// Builders of pipelines lay out what they build: laid out alone, it is done once more.
std::vector<ProgramSet> Build(const Case& c, program::LayerGraph graph) {
  std::vector<ProgramSet> sets;
  if (c.stages == 1) {
    sets.push_back(OneStage(std::move(graph), c.micro_batches).Run());
    return sets;
  }
  program::PipelineOptions options{.tensor = kTensor, .gradient_clip = 1, .scratch = Scratch};
  options.schedule = {.stages = c.stages, .micro_batches = c.micro_batches};
  auto built = program::BuildPipeline(std::move(graph), Update, options);
  if (!built.ok()) Fail(built.status());
  return *std::move(built);
}

void Measure(const Case& c) {
  auto graph = model::EmitLlama(
      c.spec, {.sequence = 8192, .prefill_chunk = 0, .tensor_degree = kTensor, .tensor_chunks = 4});
  if (!graph.ok()) Fail(graph.status());
  Clock clock;
  std::vector<ProgramSet> sets = Build(c, *std::move(graph));
  const double build = clock.Lap();
  if (c.stages == 1) {
    if (const absl::Status status = program::LayOut(sets[0]); !status.ok()) Fail(status);
  }
  const double layout = clock.Lap();
  std::vector<const ProgramSet*> stages;
  size_t instructions = 0, slots = 0, actions = 0;
  for (const ProgramSet& set : sets) {
    stages.push_back(&set);
    instructions += set.programs[0].instructions.size();
    slots += set.programs[0].slots.size();
    for (const program::Instruction& i : set.programs[0].instructions) {
      actions += i.template_index < 0 ? 1 : set.templates[i.template_index].ops.size();
    }
  }
  const program::Mesh mesh{.sizes = sets[0].groups};
  const absl::Status status = program::Verify(stages, "train", mesh);
  if (!status.ok()) Fail(status);
  const double verify = clock.Lap();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%-18s %6d %6d %12zu %8zu %9zu %8.2f %8.2f %8.2f %8.2f %9.0f\n", c.name.c_str(),
              c.stages, c.micro_batches, instructions, slots, actions, build, layout, verify,
              build + layout + verify, static_cast<double>(usage.ru_maxrss) / 1024);
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
  for (const Case& c : cases) {
    if (only.empty() || c.name == only) good = Run(c) && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc > 1 ? argv[1] : ""); }
