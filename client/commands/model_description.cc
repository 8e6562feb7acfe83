#include "client/commands/model_description.h"

#include <cmath>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "client/terminal/table.h"
#include "client/views/description.h"
#include "client/views/structured.h"
#include "common/units.h"
#include "model/model_spec_proto.h"
#include "model/parameter_count.h"
#include "model/saved_values.h"

namespace strata::client {
namespace {

constexpr double kWeightBytes = 4;  // f32

Json ModelJson(const std::string& name, const model::ModelSpec& spec) {
  Json values = Json::array();
  for (const model::SavedValue& value : model::SavableValues(spec)) {
    values.push_back({{"name", value.name}, {"bytes_per_token_and_layer", value.bytes}});
  }
  return {{"name", name},
          {"layers", spec.layers},
          {"hidden", spec.hidden},
          {"heads", spec.heads},
          {"kv_heads", spec.kv_heads},
          {"head_size", spec.head_size},
          {"ffn", spec.ffn},
          {"vocab", spec.vocab},
          {"tied_embeddings", spec.tied_embeddings},
          {"parameters", std::llround(model::ParameterCount(spec))},
          {"saved_values", std::move(values)}};
}

std::string ModelText(const std::string& name, const model::ModelSpec& spec) {
  const double parameters = model::ParameterCount(spec);
  Description description;
  description.Add("Name", name);
  description.Add("Layers", absl::StrCat(spec.layers));
  description.Add("Hidden", absl::StrCat(spec.hidden, ", feed-forward ", spec.ffn));
  description.Add("Heads", absl::StrCat(spec.heads, " of ", spec.head_size, ", ", spec.kv_heads,
                                        " of keys and values"));
  description.Add("Vocabulary",
                  absl::StrCat(spec.vocab, spec.tied_embeddings ? ", tied embeddings" : ""));
  description.Add("Parameters",
                  absl::StrCat(common::FormatDecimal(parameters, ""), ", ",
                               common::FormatBytes(parameters * kWeightBytes), " in f32"));
  std::vector<std::vector<std::string>> rows;
  int64_t sum = 0;
  for (const model::SavedValue& value : model::SavableValues(spec)) {
    rows.push_back({value.name, absl::StrCat(value.bytes)});
    sum += value.bytes;
  }
  rows.push_back({"all", absl::StrCat(sum)});
  return absl::StrCat(description.Take(), "\nparallel.recompute.save may name:\n",
                      FormatTable({"VALUE", "BYTES PER TOKEN AND LAYER"}, rows));
}

absl::StatusOr<model::ModelSpec> SizesOf(const LoadedJob& loaded) {
  auto sizes = model::FromProto(loaded.file.job.model());
  if (sizes.ok()) return sizes;
  spec::Problems problems(loaded.path);
  problems.Add(
      {loaded.file.positions.Of("model"), "model", std::string(sizes.status().message()), ""});
  return problems.ToStatus();
}

}  // namespace

int DescribeModel(const std::string& path, const std::string& output, Terminal& terminal) {
  const absl::StatusOr<LoadedJob> loaded = ReadJobAlone(path, {});
  if (!loaded.ok()) return Fail(loaded.status(), terminal);
  const absl::StatusOr<model::ModelSpec> sizes = SizesOf(*loaded);
  if (!sizes.ok()) return Fail(sizes.status(), terminal);
  const std::string& name = loaded->file.job.name();
  if (IsStructured(output)) {
    terminal.Out(ToText(ModelJson(name, *sizes), output));
  } else if (output == "name") {
    terminal.Out(name + "\n");
  } else {
    terminal.Out(ModelText(name, *sizes));
  }
  return kExitDone;
}

}  // namespace strata::client
