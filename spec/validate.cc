#include "spec/validate.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/model_spec_proto.h"
#include "model/saved_values.h"
#include "spec/defaults.h"
#include "spec/plan_shape.h"
#include "spec/suggest.h"
#include "spec/validate_adapters.h"
#include "spec/validate_memory.h"
#include "spec/yaml_tree.h"

namespace strata::spec {
namespace {

using strata::v1::JobSpec;
using strata::v1::ModelSpec;
using strata::v1::ParallelSpec;
using strata::v1::TrainSpec;

bool IsLabelText(absl::string_view text) {
  const auto plain = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  return !text.empty() && text.size() <= 63 && plain(text.front()) && plain(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return plain(c) || c == '-' || c == '_' || c == '.' || c == '/';
         });
}

class Validator {
 public:
  Validator(const JobSpec& job, const PositionMap& positions, Problems& problems)
      : job_(job), positions_(positions), problems_(problems) {}

  void Name();
  void Labels();
  void Required(bool completed);
  void ModelShape();
  void Data();
  void Epochs(bool completed);
  void Completed();
  void Layout();
  void Ranks(std::optional<int64_t> ranks);
  void Topology();
  void Numbers();

 private:
  // Whether nothing is wrong with these fields so far.
  bool Sound(std::initializer_list<const char*> paths) const {
    for (const char* path : paths) {
      if (problems_.Concerns(path)) return false;
    }
    return true;
  }
  void Report(const std::string& path, std::string what, std::string remedy,
              ProblemKind kind = ProblemKind::kInvalid) {
    problems_.Add({positions_.Of(path), path, std::move(what), std::move(remedy), kind});
  }
  void Require(bool present, const char* path, const char* remedy) {
    if (!present && !problems_.Concerns(path)) Report(path, "required key is missing", remedy);
  }
  void OnlyFrom();
  void FromDirectory();
  std::string NearestSave(const std::string& field, const std::vector<std::string>& savable) const;

  const JobSpec& job_;
  const PositionMap& positions_;
  Problems& problems_;
};

// Runs of ranks that lie inside one group each. Which levels there are only a cluster knows.
void Validator::Topology() {
  constexpr int kMostConstraints = 16;
  const auto& topology = job_.resources().topology();
  if (topology.size() > kMostConstraints) {
    Report("resources.topology", absl::StrCat("has ", topology.size(), " entries"),
           absl::StrCat("at most ", kMostConstraints, " are allowed"));
  }
  const int64_t ranks = job_.resources().ranks(), tensor = job_.parallel().tensor();
  const bool known = Sound({"resources.ranks", "parallel.tensor"}) && ranks > 0 && tensor > 0 &&
                     !job_.parallel().automatic();
  for (int i = 0; i < topology.size(); ++i) {
    const std::string at = absl::StrCat("resources.topology[", i, "]");
    const int64_t run = topology[i].ranks();
    if (!topology[i].has_within() && !problems_.Concerns(at + ".within")) {
      Report(at, "within is missing", "name a level of the topology, such as rack, or node");
    }
    if (problems_.Concerns(at + ".ranks")) continue;
    if (!topology[i].has_ranks()) {
      Report(at, "ranks is missing", "say how many ranks stay together, such as 16");
      continue;
    }
    if (known && ranks % run != 0) {
      Report(at + ".ranks", absl::StrCat(run, " does not divide the job's ", ranks, " ranks"),
             "its runs have to be equally long");
    } else if (known && run % tensor != 0 && tensor % run != 0) {
      Report(at + ".ranks",
             absl::StrCat(run, " is neither a multiple nor a divisor of parallel.tensor, ", tensor),
             "let runs consist of whole tensor groups");
    }
    for (int j = 0; j < i; ++j) {
      const int64_t other = topology[j].ranks();
      if (other == 0 || run % other == 0 || other % run == 0) continue;
      Report(at + ".ranks",
             absl::StrCat(run, " and the ", other, " of resources.topology[", j,
                          "] do not divide one another"),
             "let longer runs consist of whole shorter ones");
    }
  }
}

// Types of numbers, and rates, that go together.
void Validator::Numbers() {
  const TrainSpec& train = job_.train();
  const strata::v1::OptimizerSpec& optimizer = train.optimizer();
  const auto refuse = [&](const std::string& key, const char* what, const char* remedy) {
    const std::string path = absl::StrCat("train.optimizer.", key);
    if (positions_.Has(path) && !problems_.Concerns(path)) Report(path, what, remedy);
  };
  if (!problems_.Concerns("train.precision") && optimizer.has_master()) {
    const bool split = optimizer.master() == strata::v1::OptimizerSpec::MASTER_SPLIT;
    if (train.precision() == TrainSpec::PRECISION_F32) {
      refuse("master", "a master of f32 weights, which are their own (train.precision is f32)",
             "remove it, or use train.precision: bf16");
    } else if (train.precision() == TrainSpec::PRECISION_F16 && split) {
      refuse("master", "split, with f16 weights (16 bits more do not make an f32 of an f16)",
             "use master: f32, or train.precision: bf16");
    }
  }
  if (problems_.Concerns("train.optimizer.name")) return;
  if (optimizer.name() == strata::v1::OptimizerSpec::NAME_SGD) {
    for (const char* key : {"beta1", "beta2", "epsilon"}) {
      refuse(key, "a rate of adamw, where the optimizer is sgd", "remove it, or use name: adamw");
    }
  } else {
    refuse("momentum", "a rate of sgd, where the optimizer is adamw",
           "remove it (beta1 is adamw's), or use name: sgd");
  }
}

void Validator::Name() {
  if (!Sound({"name"})) return;
  const std::string& name = job_.name();
  bool good = name.size() <= 63 && absl::ascii_isalnum(static_cast<unsigned char>(name[0]));
  for (const char c : name) {
    good &= absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  }
  if (good) return;
  Report("name", absl::StrCat("not a name: ", Shown(name), " (it becomes a folder's name)"),
         "at most 63 letters, digits, '.', '_' and '-', beginning with a letter or digit");
}

void Validator::Labels() {
  constexpr int kMostLabels = 32;
  const auto& labels = job_.labels();
  if (labels.size() > kMostLabels) {
    Report("labels", absl::StrCat("has ", labels.size(), " entries"),
           absl::StrCat("at most ", kMostLabels, " are allowed"));
  }
  constexpr char kForm[] =
      "use 1 to 63 letters, digits, '-', '_', '.' and '/', a letter or digit at both ends";
  for (const auto& [key, value] :
       std::map<std::string, std::string>(labels.begin(), labels.end())) {
    const std::string path = PathOf("labels", key);
    if (!IsLabelText(key)) Report(path, absl::StrCat(Shown(key), " is no label's key"), kForm);
    if (!IsLabelText(value)) {
      Report(path, absl::StrCat(Shown(value), " is no label's value"), kForm);
    }
  }
}

void Validator::Required(bool completed) {
  if (!positions_.Has("model")) {
    Require(false, "model", "give `from: DIR`, or family, layers, hidden, heads and ffn");
  } else if (job_.model().has_from()) {
    if (!completed) OnlyFrom();
  } else if (Sound({"model.from"})) {
    const ModelSpec& model = job_.model();
    Require(model.has_family(), "model.family", "such as llama, or give model.from");
    Require(model.has_layers(), "model.layers", "sizes have no defaults");
    Require(model.has_hidden(), "model.hidden", "sizes have no defaults");
    Require(model.has_heads(), "model.heads", "sizes have no defaults");
    Require(model.has_ffn(), "model.ffn", "sizes have no defaults");
  }
  Require(job_.data().train_size() > 0, "data.train", "name the text: `train: [{path: FILE}]`");
  for (int i = 0; i < job_.data().train_size(); ++i) {
    const std::string path = absl::StrCat("data.train[", i, "].path");
    Require(job_.data().train(i).has_path(), path.c_str(), "name the file");
  }
}

void Validator::OnlyFrom() {
  for (const char* key : {"family",
                          "layers",
                          "hidden",
                          "heads",
                          "kv_heads",
                          "head_size",
                          "ffn",
                          "vocab",
                          "context",
                          "tied_embeddings",
                          "rope",
                          "initial_std",
                          "norm_epsilon",
                          "activation",
                          "attention_bias",
                          "output_bias",
                          "feed_forward_bias",
                          "sliding_window",
                          "full_attention_layers",
                          "query_scale",
                          "attention_softcap",
                          "logit_softcap",
                          "weights_type",
                          "weights"}) {
    const std::string path = absl::StrCat("model.", key);
    if (!positions_.Has(path) || problems_.Concerns(path)) continue;
    Report(path, "given together with model.from (whose config.json says it)",
           "remove one of the two");
  }
}

// What config.json says against the rest of the file.
void Validator::FromDirectory() {
  const ModelSpec& model = job_.model();
  if (!model.has_layers() || !Sound({"model", "model.from"})) return;
  if (Sound({"train.sequence"}) && model.context() < job_.train().sequence()) {
    Report("train.sequence",
           absl::StrCat("sequence ", job_.train().sequence(), " is longer than the model's ",
                        model.context(), " positions (max_position_embeddings)"),
           absl::StrCat("use at most ", model.context()));
  }
}

void Validator::ModelShape() {
  const ModelSpec& model = job_.model();
  if (model.has_from()) return FromDirectory();
  const int64_t hidden = model.hidden();
  const int64_t heads = model.heads();
  if (model.has_heads() && model.has_kv_heads() && Sound({"model.heads", "model.kv_heads"}) &&
      heads % model.kv_heads() != 0) {
    Report("model.kv_heads",
           absl::StrCat("heads ", heads, " is not divisible by kv_heads ", model.kv_heads(),
                        " (each key-value head serves equally many heads)"),
           "choose a divisor of heads");
  }
  const bool given = positions_.Has("model.head_size");
  if (model.has_hidden() && model.has_heads() && !given &&
      Sound({"model.hidden", "model.heads", "model.head_size"}) && hidden % heads != 0) {
    Report("model.hidden",
           absl::StrCat("hidden ", hidden, " is not divisible by heads ", heads,
                        " (the head size is hidden / heads)"),
           "choose a multiple of heads, or give model.head_size");
  }
  if (model.has_head_size() && model.head_size() % 2 != 0 &&
      Sound({"model.hidden", "model.heads", "model.head_size"})) {
    Report(given ? "model.head_size" : "model.hidden",
           absl::StrCat("head size ", model.head_size(), given ? "" : " (hidden / heads)",
                        " is not even (rotary embeddings turn pairs of elements)"),
           "choose an even head size");
  }
  if (Sound({"model.context", "train.sequence"}) && model.context() < job_.train().sequence()) {
    Report("model.context",
           absl::StrCat("context ", model.context(), " is shorter than train.sequence ",
                        job_.train().sequence()),
           "lengthen the context or shorten the sequence");
  }
  if (!job_.data().has_tokenizer() && Sound({"model.vocab"}) && model.vocab() < 256) {
    Report("model.vocab",
           absl::StrCat("vocab ", model.vocab(), " is smaller than 256 (text is read as bytes)"),
           "use 256");
  }
}

void Validator::Data() {
  if (job_.data().has_validation() &&
      Sound({"data.validation", "data.validation.path", "data.validation.fraction"})) {
    const auto& validation = job_.data().validation();
    if (validation.has_path() && validation.has_fraction()) {
      Report("data.validation.fraction", "given together with data.validation.path",
             "remove one of the two");
    } else if (!validation.has_path() && !validation.has_fraction()) {
      Report("data.validation", "neither path nor fraction is given", "give one of the two");
    }
  }
  if (positions_.Has("evaluate") && !job_.data().has_validation() &&
      job_.evaluate().every_steps() != 0 && Sound({"evaluate", "data.validation"})) {
    Report("evaluate", "there is nothing to evaluate on (data.validation is absent)",
           "give data.validation, or remove this section");
  }
}

void Validator::Epochs(bool completed) {
  const bool both = job_.train().has_epochs() && job_.train().has_steps();
  if (!both || completed || !Sound({"train.epochs", "train.steps"})) return;
  Report("train.steps", "given together with train.epochs (from which the steps follow)",
         "remove one of the two");
}

// A job of whose files nobody here can read anything.
void Validator::Completed() {
  if (job_.train().has_epochs() && !job_.train().has_steps() && Sound({"train.epochs"})) {
    Report("train.epochs",
           "train.steps is missing (it follows from the data's files, which only the "
           "client reads)",
           "hand the job over with strata submit, or give train.steps");
  }
  if (job_.model().has_from() && !job_.model().has_layers() && Sound({"model", "model.from"})) {
    Report("model.from",
           "its sizes are missing (they stand in its config.json, which only the "
           "client reads)",
           "hand the job over with strata submit");
  }
  const bool sized = job_.model().has_vocab() || job_.model().has_from();
  if (job_.data().has_tokenizer() && !sized && Sound({"model.vocab", "data.tokenizer"})) {
    Report("model.vocab",
           "required key is missing (the tokenizer's size, which only the client reads)",
           "hand the job over with strata submit, or give model.vocab");
  }
  const auto prepared = [&](const std::string& file, const std::string& path) {
    for (const char* ending : {".jsonl", ".ndjson", ".gz", ".zst"}) {
      if (!absl::EndsWith(file, ending) || !Sound({path.c_str()})) continue;
      Report(path,
             absl::StrCat(Shown(file),
                          ": records and compressed text have to be prepared first (trainers read "
                          "token files alone)"),
             "hand the job over with strata submit, or name what strata data prepare makes of it: "
             "strata data prepare FILE.jsonl --tokenizer DIR -o FILE.bin");
      return;
    }
  };
  for (int i = 0; i < job_.data().train_size(); ++i) {
    prepared(job_.data().train(i).path(), absl::StrCat("data.train[", i, "].path"));
  }
  prepared(job_.data().validation().path(), "data.validation.path");
}

// What program/compose says of the layout. Fields without a place in the file get that of the
// section.
void Validator::Layout() {
  if (job_.parallel().automatic() || problems_.Concerns("parallel")) return;
  std::vector<std::string> savable =
      model::NamesOfSavableValues(model::FamilyOf(job_.model().family()));
  savable.emplace_back(model::kAllValues);
  const auto found = program::CheckPlan(PlanShapeOf(job_, problems_), savable);
  for (const program::PlanProblem& problem : found) {
    if (problems_.Concerns(problem.field)) continue;
    // A name or a number that the model does not have is a mistake of the file, no layout.
    const bool recompute = absl::StartsWith(problem.field, "parallel.recompute");
    std::string remedy = problem.instead;
    if (remedy.empty() && absl::StartsWith(problem.field, "parallel.recompute.save[")) {
      remedy = NearestSave(problem.field, savable);
    }
    Report(problem.field, problem.what, remedy,
           recompute ? ProblemKind::kInvalid : ProblemKind::kInfeasible);
  }
}

// "did you mean …?" of the element of recompute.save at `field`, or empty.
std::string Validator::NearestSave(const std::string& field,
                                   const std::vector<std::string>& savable) const {
  const auto& saves = job_.parallel().recompute().save();
  for (int i = 0; i < saves.size(); ++i) {
    if (field != absl::StrCat("parallel.recompute.save[", i, "]")) continue;
    const std::string nearest = Nearest(saves[i], savable);
    if (!nearest.empty()) return absl::StrCat("did you mean ", nearest, "?");
  }
  return "";
}

void Validator::Ranks(std::optional<int64_t> ranks) {
  const ParallelSpec& parallel = job_.parallel();
  if (parallel.automatic()) {
    if (!ranks.has_value() || !Sound({"resources.ranks"})) return;
    if (*ranks == job_.resources().ranks()) return;
    return Report("resources.ranks",
                  absl::StrCat("--ranks ", *ranks, " is not the file's ", job_.resources().ranks()),
                  "change one of them, or remove resources.ranks", ProblemKind::kInfeasible);
  }
  if (!Sound({"parallel.data", "parallel.tensor", "parallel.context", "parallel.pipeline"})) {
    return;
  }
  const int64_t product = RanksOf(parallel);
  const std::string degrees =
      absl::StrCat("data ", parallel.data(), " × tensor ", parallel.tensor(), " × context ",
                   parallel.context(), " × pipeline ", parallel.pipeline(), " = ", product);
  if (ranks.has_value() && *ranks != product) {
    Report("parallel.data",
           absl::StrCat("--ranks ", *ranks, " is not the product of the degrees (", degrees, ")"),
           "change one of them, or remove the parallel section and give --ranks alone",
           ProblemKind::kInfeasible);
  }
  if (Sound({"resources.ranks"}) && job_.resources().ranks() != product) {
    Report("resources.ranks",
           absl::StrCat("ranks ", job_.resources().ranks(), " is not the product of the degrees (",
                        degrees, ")"),
           absl::StrCat("use ", product, ", or change the degrees"), ProblemKind::kInfeasible);
  }
}

}  // namespace

void Validate(const JobSpec& job, const PositionMap& positions, const ReadOptions& options,
              Problems& problems) {
  Validator validator(job, positions, problems);
  validator.Name();
  validator.Labels();
  validator.Required(options.completed);
  validator.ModelShape();
  validator.Data();
  validator.Epochs(options.completed);
  if (options.completed) validator.Completed();
  ValidateAdapters(job, positions, problems);
  ValidateMemory(job, positions, problems);
  validator.Layout();
  validator.Ranks(options.ranks);
  validator.Topology();
  validator.Numbers();
}

}  // namespace strata::spec
