#include "spec/validate_adapters.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/adapter_names.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"
#include "spec/suggest.h"

namespace strata::spec {
namespace {

using strata::v1::JobSpec;
using strata::v1::QuantizeSpec;
using strata::v1::TrainSpec;

class AdapterValidator {
 public:
  AdapterValidator(const JobSpec& job, const PositionMap& positions, Problems& problems)
      : job_(job), train_(job.train()), positions_(positions), problems_(problems) {}

  void Methods() {
    const bool adapts = model::TrainsAdapters(train_);
    if (positions_.Has("train.lora") && !adapts) {
      Report("train.lora", "given, but train.method is not lora or qlora",
             "give method: lora, or remove it");
    }
    if (positions_.Has("train.quantize") && train_.method() != TrainSpec::METHOD_QLORA) {
      Report("train.quantize", "given, but train.method is not qlora",
             "give method: qlora, or remove it");
    }
    for (const char* key : {"train.quantize.block", "train.quantize.double"}) {
      if (!positions_.Has(key) || train_.quantize().type() != QuantizeSpec::TYPE_INT8) continue;
      Report(key, "given, but train.quantize.type is int8, which has one scale per row",
             "give type: nf4, or remove it");
    }
    if (job_.model().has_adapter() && !adapts) {
      Report("model.adapter", "given, but train.method is not lora or qlora",
             "give method: lora, or remove it");
    }
    if (adapts && !job_.model().has_from() && !job_.train().has_start_from()) {
      Report(
          "train.method",
          "adapters are trained beside a model that has learned something (model.from is absent)",
          "give model.from, or method: full");
    }
  }

  // Names of modules; of a model whose family is not known yet, whoever reads its config.json asks
  // again.
  void Targets() {
    const std::optional<model::Family> family = model::FamilyOf(job_.model().family());
    if (!family.has_value()) return;
    const std::vector<std::string> known = model::AdapterTargets(*family);
    for (int i = 0; i < train_.lora().targets_size(); ++i) {
      const std::string& target = train_.lora().targets(i);
      const std::string last = target.substr(target.rfind('.') + 1);
      if (last == "all-linear" || std::find(known.begin(), known.end(), last) != known.end()) {
        continue;
      }
      const std::string nearest = Nearest(last, known);
      Report(absl::StrCat("train.lora.targets[", i, "]"),
             absl::StrCat("the model's blocks have no linear layer ", Shown(last)),
             nearest.empty()
                 ? absl::StrCat("use all-linear, or some of ", absl::StrJoin(known, ", "))
                 : absl::StrCat("did you mean ", nearest, "?"));
    }
  }

 private:
  void Report(const std::string& path, std::string what, std::string remedy) {
    if (problems_.Concerns(path)) return;
    problems_.Add({positions_.Of(path), path, std::move(what), std::move(remedy)});
  }

  const JobSpec& job_;
  const TrainSpec& train_;
  const PositionMap& positions_;
  Problems& problems_;
};

}  // namespace

void ValidateAdapters(const JobSpec& job, const PositionMap& positions, Problems& problems) {
  AdapterValidator validator(job, positions, problems);
  validator.Methods();
  validator.Targets();
}

}  // namespace strata::spec
