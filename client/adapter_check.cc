#include "client/adapter_check.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/peft/adapter_config.h"
#include "checkpoint/peft/adapter_tensors.h"
#include "checkpoint/peft/adapter_weights.h"
#include "model/adapter_names.h"
#include "model/lora_proto.h"

namespace strata::client {
namespace {

constexpr char kAdapterKey[] = "model.adapter";
constexpr char kTargetsKey[] = "train.lora.targets";

using Modules = std::set<std::string>;

// Each line of the message is a problem with the key.
std::vector<AdapterProblem> ProblemsOf(const char* key, const absl::Status& status) {
  std::vector<AdapterProblem> problems;
  for (absl::string_view line : absl::StrSplit(status.message(), '\n', absl::SkipEmpty())) {
    absl::ConsumePrefix(&line, absl::StrCat(key, ": "));
    problems.push_back({key, std::string(line), ""});
  }
  return problems;
}

// Modules by the last words of their names, which targets may be.
std::string LastWords(const Modules& modules) {
  std::set<std::string> words;
  for (const std::string& module : modules) words.insert(module.substr(module.rfind('.') + 1));
  return absl::StrJoin(words, ", ");
}

Modules Without(const Modules& all, const Modules& others) {
  Modules left;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(),
                      std::inserter(left, left.end()));
  return left;
}

Modules ModulesOf(const std::vector<checkpoint::AdapterTensor>& tensors) {
  Modules modules;
  for (const checkpoint::AdapterTensor& tensor : tensors) {
    absl::string_view name = tensor.name;
    if (absl::ConsumeSuffix(&name, ".lora_A.weight")) modules.emplace(name);
  }
  return modules;
}

std::vector<AdapterProblem> CheckNumbers(const v1::LoraSpec& lora, const std::string& folder,
                                         const checkpoint::AdapterConfig& config) {
  std::vector<AdapterProblem> problems;
  if (lora.rank() != config.rank) {
    problems.push_back({"train.lora.rank",
                        absl::StrCat("is ", lora.rank(), ", ", folder, " has ", config.rank),
                        absl::StrCat("give rank: ", config.rank)});
  }
  if (lora.alpha() != config.alpha) {
    problems.push_back({"train.lora.alpha",
                        absl::StrCat("is ", lora.alpha(), ", ", folder, " has ", config.alpha),
                        absl::StrCat("give alpha: ", config.alpha)});
  }
  return problems;
}

std::vector<AdapterProblem> CheckTargets(const std::string& folder, const Modules& asked,
                                         const Modules& stored) {
  if (asked == stored) return {};
  const Modules missing = Without(asked, stored), others = Without(stored, asked);
  const Modules& named = missing.empty() ? others : missing;
  const std::string first = *named.begin();
  const std::string more = named.size() > 1 ? absl::StrCat(" and ", named.size() - 1, " more") : "";
  const std::string what =
      missing.empty()
          ? absl::StrCat("do not name ", first, more, ", which ", folder, " has adapters beside")
          : absl::StrCat("name ", first, more, ", which ", folder, " has no adapters beside");
  return {{kTargetsKey, what, absl::StrCat("it has some beside ", LastWords(stored))}};
}

}  // namespace

std::vector<AdapterProblem> CheckAdapter(const v1::JobSpec& job, const model::ModelSpec& model) {
  const std::string& folder = job.model().adapter();
  const auto config = checkpoint::ReadAdapterConfig(folder);
  if (!config.ok()) return ProblemsOf(kAdapterKey, config.status());
  const auto stored = checkpoint::AdaptedModules(folder);
  if (!stored.ok()) return ProblemsOf(kAdapterKey, stored.status());
  std::vector<AdapterProblem> problems = CheckNumbers(job.train().lora(), folder, *config);
  const auto tensors = checkpoint::TensorsOfModel(model, model::LoraOf(job.train()));
  if (!tensors.ok()) return ProblemsOf(kTargetsKey, tensors.status());
  const std::vector<checkpoint::AdapterTensor> adapters =
      checkpoint::AdapterTensorsOf(model, *tensors);
  for (AdapterProblem& problem :
       CheckTargets(folder, ModulesOf(adapters), {stored->begin(), stored->end()})) {
    problems.push_back(std::move(problem));
  }
  // Shapes differ with the rank, tensors with the targets: what is told already.
  if (!problems.empty()) return problems;
  return ProblemsOf(kAdapterKey, checkpoint::AdapterWeights::Open(
                                     folder, adapters, checkpoint::AdapterWeights::Named::kAll)
                                     .status());
}

}  // namespace strata::client
