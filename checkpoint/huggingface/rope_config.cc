#include "checkpoint/huggingface/rope_config.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::checkpoint {
namespace {

using Json = nlohmann::json;
using model::Family;
using v1::ModelSpec;

constexpr char kScaling[] = "rope_scaling", kParameters[] = "rope_parameters";
constexpr char kFull[] = "full_attention", kSliding[] = "sliding_attention";
constexpr char kOriginal[] = "original_max_position_embeddings";
constexpr char kPartial[] = "partial_rotary_factor";
constexpr char kKinds[] = "default, linear, llama3, longrope and yarn are supported";

std::string TypeOf(const ConfigFields& rope) {
  return rope.Text("rope_type", rope.Text("type", "default"));
}

class ScalingReader {
 public:
  // `original`: the positions before scaling; of Phi-3 whatever `rope` says, else where it says
  // nothing.
  ScalingReader(const ConfigFields& rope, const ModelSpec& model, int64_t original,
                v1::RopeScaling* scaling)
      : rope_(rope), model_(model), original_(original), scaling_(*scaling) {}

  void Read(const std::string& type) {
    scaling_.set_rope_type(type);
    if (type == "linear") return Linear();
    if (type == "llama3") return Llama3();
    if (type == "yarn") return Yarn();
    LongRope();
  }

 private:
  double Required(const char* key) {
    if (!rope_.Has(key)) {
      rope_.Report(key, absl::StrCat("missing, of type ", scaling_.rope_type()),
                   "correct the file");
    }
    const double value = rope_.Number(key, 1);
    if (value <= 0) rope_.Report(key, "not greater than 0", "correct the file");
    return value;
  }
  void Original() {
    const bool fixed = model_.family() == ModelSpec::FAMILY_PHI3;
    scaling_.set_original_max_position_embeddings(fixed ? original_
                                                        : rope_.Count(kOriginal, original_));
    if (scaling_.original_max_position_embeddings() > 0) return;
    rope_.Report(kOriginal, "not greater than 0", "correct the file");
    scaling_.set_original_max_position_embeddings(1);
  }
  // How many times the original positions, unless the file says it.
  void Factor() {
    const double longer = static_cast<double>(model_.context()) /
                          static_cast<double>(scaling_.original_max_position_embeddings());
    scaling_.set_factor(rope_.Has("factor") ? Required("factor") : longer);
  }
  void AttentionFactor() {
    if (rope_.Has("attention_factor")) scaling_.set_attention_factor(Required("attention_factor"));
  }

  void Linear() { scaling_.set_factor(Required("factor")); }

  void Llama3() {
    Original();
    scaling_.set_factor(Required("factor"));
    scaling_.set_low_freq_factor(Required("low_freq_factor"));
    scaling_.set_high_freq_factor(Required("high_freq_factor"));
  }

  void Yarn() {
    Original();
    Factor();
    AttentionFactor();
    scaling_.set_beta_fast(rope_.Number("beta_fast", 32));
    scaling_.set_beta_slow(rope_.Number("beta_slow", 1));
    if (!rope_.Flag("truncate", true)) {
      rope_.Report("truncate", "false is not supported", "name a model without it");
    }
    const double mscale = rope_.Number("mscale", 0), all = rope_.Number("mscale_all_dim", 0);
    if (mscale == 0 || all == 0 || scaling_.has_attention_factor()) return;
    const auto scale = [&](double m) {
      return scaling_.factor() <= 1 ? 1.0 : 0.1 * m * std::log(scaling_.factor()) + 1;
    };
    scaling_.set_attention_factor(scale(mscale) / scale(all));
  }

  void LongRope() {
    scaling_.set_rope_type("longrope");
    Original();
    Factor();
    AttentionFactor();
    const double partial = model_.rope().partial_rotary_factor();
    const auto turned = static_cast<int64_t>(static_cast<double>(model_.head_size()) *
                                             (partial > 0 ? partial : 1.0));
    for (const auto& [key, factors] : {std::pair("short_factor", scaling_.mutable_short_factor()),
                                       std::pair("long_factor", scaling_.mutable_long_factor())}) {
      const std::vector<double> values = rope_.Numbers(key);
      factors->Add(values.begin(), values.end());
      bool positive = true;
      for (const double value : values) positive &= value > 0;
      if (static_cast<int64_t>(values.size()) == turned / 2 && positive) continue;
      rope_.Report(key,
                   absl::StrCat(values.size(), " numbers, where ", turned / 2,
                                " greater than 0 are needed (one per pair that turns)"),
                   "correct the file");
    }
  }

  const ConfigFields& rope_;
  const ModelSpec& model_;
  const int64_t original_;
  v1::RopeScaling& scaling_;
};

void ReadScaling(const ConfigFields& rope, int64_t original, ModelSpec& model) {
  std::string type = TypeOf(rope);
  // Names that Phi-3's first files had for it.
  const bool phi3 = model.family() == ModelSpec::FAMILY_PHI3;
  if (phi3 && (type == "su" || type == "yarn")) type = "longrope";
  if (type == "default") return;
  if (type == "dynamic") {
    return rope.Report("rope_type", "dynamic is not supported (angles that follow the length)",
                       kKinds);
  }
  if (type != "linear" && type != "llama3" && type != "yarn" && type != "longrope") {
    return rope.Report("rope_type", absl::StrCat("\"", type.substr(0, 80), "\" is not supported"),
                       kKinds);
  }
  ScalingReader(rope, model, original, model.mutable_rope()->mutable_scaling()).Read(type);
}

double Theta(const ConfigFields& rope, const ConfigFields& config, const char* key,
             double otherwise) {
  const double theta = rope.Number("rope_theta", config.Number(key, otherwise));
  if (theta > 0) return theta;
  config.Report(key, "not greater than 0", "correct the file");
  return otherwise;
}

// Two tables: one of layers that see everything, which may be scaled, one of the others.
void ReadGemma3(const ConfigFields& config, ModelSpec& model) {
  const ConfigFields parameters = config.Object(kParameters);
  const ConfigFields full = parameters.Object(kFull), sliding = parameters.Object(kSliding);
  if (!parameters.empty() && full.empty() && sliding.empty()) {
    config.Report(kParameters, "has neither full_attention nor sliding_attention",
                  "correct the file");
  }
  v1::RopeSpec& rope = *model.mutable_rope();
  rope.set_theta(Theta(full, config, "rope_theta", 1e6));
  rope.set_local_theta(Theta(sliding, config, "rope_local_base_freq", 1e4));
  if (TypeOf(sliding) != "default") {
    sliding.Report("rope_type", "layers with a window are not scaled", "use default");
  }
  const ConfigFields old = config.Object(kScaling);
  ReadScaling(old.empty() ? full : old, model.context(), model);
}

Json ScalingObject(const model::ModelSpec& model) {
  using Kind = model::RopeScaling::Kind;
  const model::RopeScaling& scaling = model.rope_scaling;
  Json json = Json::object();
  json["rope_type"] = "default";
  if (scaling.kind == Kind::kNone) return json;
  json["factor"] = scaling.factor;
  switch (scaling.kind) {
    case Kind::kLinear:
      json["rope_type"] = "linear";
      return json;
    case Kind::kLlama3:
      json["rope_type"] = "llama3";
      json["low_freq_factor"] = scaling.low_freq_factor;
      json["high_freq_factor"] = scaling.high_freq_factor;
      break;
    case Kind::kYarn:
      json["rope_type"] = "yarn";
      json["beta_fast"] = scaling.beta_fast;
      json["beta_slow"] = scaling.beta_slow;
      break;
    default:
      json["rope_type"] = "longrope";
      json["short_factor"] = scaling.short_factor;
      json["long_factor"] = scaling.long_factor;
  }
  json[kOriginal] = scaling.original_context;
  if (scaling.attention_factor > 0) json["attention_factor"] = scaling.attention_factor;
  return json;
}

// transformers 4 takes these three keys of Phi-3 and no others: absent where they do not say it
// all. With them transformers 5 does not look at rope_parameters.
Json Phi3Scaling(const model::ModelSpec& model, const Json& all) {
  const model::RopeScaling& scaling = model.rope_scaling;
  const double implied =
      static_cast<double>(model.context) / static_cast<double>(scaling.original_context);
  if (scaling.attention_factor > 0 || scaling.factor != implied) return nullptr;
  return {{"type", "longrope"},
          {"short_factor", all["short_factor"]},
          {"long_factor", all["long_factor"]}};
}

// The share of a head that turns, from which transformers computes the elements, rounded down.
double PartialFactor(const model::ModelSpec& model) {
  const auto size = static_cast<double>(model.head_size);
  const auto rotated = static_cast<double>(model.rotated());
  const double partial = rotated / size;
  return std::floor(size * partial) < rotated ? std::nextafter(partial, 2) : partial;
}

}  // namespace

void ReadRope(const ConfigFields& config, ModelSpec& model) {
  if (model.family() == ModelSpec::FAMILY_GEMMA3) return ReadGemma3(config, model);
  const ConfigFields old = config.Object(kScaling), parameters = config.Object(kParameters);
  const ConfigFields& rope = old.empty() ? parameters : old;
  if (rope.Has(kFull) || rope.Has(kSliding)) {
    return config.Report(kParameters, "differs between layers, which this family does not support",
                         "correct the file");
  }
  model.mutable_rope()->set_theta(Theta(rope, config, "rope_theta", 1e4));
  const double partial = rope.Number(kPartial, config.Number(kPartial, 1));
  const bool phi3 = model.family() == ModelSpec::FAMILY_PHI3;
  if (phi3) {
    model.mutable_rope()->set_partial_rotary_factor(partial > 0 && partial <= 1 ? partial : 1);
  }
  if (partial <= 0 || partial > 1 || (!phi3 && partial != 1)) {
    config.Report(kPartial, absl::StrCat(partial, " is not supported here"),
                  phi3 ? "it must be greater than 0 and at most 1" : "it must be 1");
  }
  const int64_t original = phi3 ? config.Count(kOriginal, 4096) : model.context();
  ReadScaling(rope, original, model);
}

void WriteRope(const model::ModelSpec& model, Json& config) {
  for (const char* key : {kScaling, kParameters, kPartial, "rope_theta", "rope_local_base_freq"}) {
    config.erase(key);
  }
  if (model.family == Family::kGpt2) return;
  const bool scaled = model.rope_scaling.kind != model::RopeScaling::Kind::kNone;
  Json full = ScalingObject(model);
  config[kScaling] = scaled ? full : Json(nullptr);
  config["rope_theta"] = full["rope_theta"] = model.rope_theta;
  config[kParameters] = full;
  if (model.family == Family::kPhi3) {
    config[kPartial] = config[kParameters][kPartial] = PartialFactor(model);
    config[kOriginal] = scaled ? model.rope_scaling.original_context : model.context;
    if (scaled) config[kScaling] = Phi3Scaling(model, full);
  }
  if (model.family == Family::kGemma3) {
    config["rope_local_base_freq"] = model.local_rope_theta;
    const Json local = {{"rope_type", "default"}, {"rope_theta", model.local_rope_theta}};
    config[kParameters] = {{kFull, full}, {kSliding, local}};
  }
}

}  // namespace strata::checkpoint
