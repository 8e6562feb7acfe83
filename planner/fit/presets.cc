#include "planner/fit/presets.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "model/family_defaults.h"
#include "model/parameter_count.h"

namespace strata::planner {
namespace {

using model::Family;
using Kind = FitModel::Kind;

// One model a row. Sizes are those of the config.json that its authors published.
struct Row {
  const char* name;
  int64_t parameters;  // published
  Kind kind;
  Family family;
  int64_t layers, hidden, heads, kv_heads, head_size, ffn, vocab, context;
  bool tied = false;
  double rope_theta = 10000;
  double query_scale = 0;  // Gemma's query_pre_attn_scalar where it is not head_size
  int64_t window = -1;     // sliding; -1: what the family does
  int64_t experts = 1, per_token = 1;
  int64_t patch_inputs = 0;
};

constexpr Kind kF = Kind::kFamily;
constexpr Family kL = Family::kLlama, kQ2 = Family::kQwen2, kQ3 = Family::kQwen3;
constexpr Family kG2 = Family::kGemma2, kG3 = Family::kGemma3, kM = Family::kMistral;
constexpr Family kGp = Family::kGpt2, kP = Family::kPhi3;

constexpr Row kRows[] = {
    // Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
    {"gpt2", 124439808, kF, kGp, 12, 768, 12, 12, 64, 3072, 50257, 1024, true},
    {"gpt2-medium", 354823168, kF, kGp, 24, 1024, 16, 16, 64, 4096, 50257, 1024, true},
    {"gpt2-large", 774030080, kF, kGp, 36, 1280, 20, 20, 64, 5120, 50257, 1024, true},
    {"gpt2-xl", 1557611200, kF, kGp, 48, 1600, 25, 25, 64, 6400, 50257, 1024, true},
    // Touvron et al., "Llama 2", 2023.
    {"llama-2-7b", 6738415616, kF, kL, 32, 4096, 32, 32, 128, 11008, 32000, 4096},
    {"llama-2-13b", 13015864320, kF, kL, 40, 5120, 40, 40, 128, 13824, 32000, 4096},
    {"llama-2-70b", 68976648192, kF, kL, 80, 8192, 64, 8, 128, 28672, 32000, 4096},
    // Grattafiori et al., "The Llama 3 Herd of Models", 2024.
    {"llama-3-8b", 8030261248, kF, kL, 32, 4096, 32, 8, 128, 14336, 128256, 8192, false, 5e5},
    {"llama-3-70b", 70553706496, kF, kL, 80, 8192, 64, 8, 128, 28672, 128256, 8192, false, 5e5},
    {"llama-3.1-8b", 8030261248, kF, kL, 32, 4096, 32, 8, 128, 14336, 128256, 131072, false, 5e5},
    {"llama-3.1-70b", 70553706496, kF, kL, 80, 8192, 64, 8, 128, 28672, 128256, 131072, false, 5e5},
    {"llama-3.1-405b", 405853388800, kF, kL, 126, 16384, 128, 8, 128, 53248, 128256, 131072, false,
     5e5},
    {"llama-3.3-70b", 70553706496, kF, kL, 80, 8192, 64, 8, 128, 28672, 128256, 131072, false, 5e5},
    {"llama-3.2-1b", 1235814400, kF, kL, 16, 2048, 32, 8, 64, 8192, 128256, 131072, true, 5e5},
    {"llama-3.2-3b", 3212749824, kF, kL, 28, 3072, 24, 8, 128, 8192, 128256, 131072, true, 5e5},
    // Yang et al., "Qwen2.5 Technical Report", 2024.
    {"qwen2.5-0.5b", 494032768, kF, kQ2, 24, 896, 14, 2, 64, 4864, 151936, 32768, true, 1e6},
    {"qwen2.5-1.5b", 1543714304, kF, kQ2, 28, 1536, 12, 2, 128, 8960, 151936, 32768, true, 1e6},
    {"qwen2.5-3b", 3085938688, kF, kQ2, 36, 2048, 16, 2, 128, 11008, 151936, 32768, true, 1e6},
    {"qwen2.5-7b", 7615616512, kF, kQ2, 28, 3584, 28, 4, 128, 18944, 152064, 131072, false, 1e6},
    {"qwen2.5-14b", 14770033664, kF, kQ2, 48, 5120, 40, 8, 128, 13824, 152064, 131072, false, 1e6},
    {"qwen2.5-32b", 32763876352, kF, kQ2, 64, 5120, 40, 8, 128, 27648, 152064, 131072, false, 1e6},
    {"qwen2.5-72b", 72706203648, kF, kQ2, 80, 8192, 64, 8, 128, 29568, 152064, 131072, false, 1e6},
    // Yang et al., "Qwen3 Technical Report", 2025.
    {"qwen3-0.6b", 596049920, kF, kQ3, 28, 1024, 16, 8, 128, 3072, 151936, 40960, true, 1e6},
    {"qwen3-1.7b", 1720574976, kF, kQ3, 28, 2048, 16, 8, 128, 6144, 151936, 40960, true, 1e6},
    {"qwen3-4b", 4022468096, kF, kQ3, 36, 2560, 32, 8, 128, 9728, 151936, 40960, true, 1e6},
    {"qwen3-8b", 8190735360, kF, kQ3, 36, 4096, 32, 8, 128, 12288, 151936, 40960, false, 1e6},
    {"qwen3-14b", 14768307200, kF, kQ3, 40, 5120, 40, 8, 128, 17408, 151936, 40960, false, 1e6},
    {"qwen3-32b", 32762123264, kF, kQ3, 64, 5120, 64, 8, 128, 25600, 151936, 40960, false, 1e6},
    // Jiang et al., "Mistral 7B", 2023; "Mixtral of Experts", 2024.
    {"mistral-7b", 7241732096, kF, kM, 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, 10000, 0,
     4096},
    {"mistral-7b-v0.2", 7241732096, kF, kM, 32, 4096, 32, 8, 128, 14336, 32000, 32768, false, 1e6,
     0, 0},
    {"mistral-7b-v0.3", 7248023552, kF, kM, 32, 4096, 32, 8, 128, 14336, 32768, 32768, false, 1e6,
     0, 0},
    {"mixtral-8x7b", 46702792704, Kind::kMoe, kM, 32, 4096, 32, 8, 128, 14336, 32000, 32768, false,
     1e6, 0, 0, 8, 2},
    {"mixtral-8x22b", 140620634112, Kind::kMoe, kM, 56, 6144, 48, 8, 128, 16384, 32000, 65536,
     false, 1e6, 0, 0, 8, 2},
    // Gemma Team, "Gemma 2", 2024; "Gemma 3 Technical Report", 2025: the language models.
    {"gemma-2-2b", 2614341888, kF, kG2, 26, 2304, 8, 4, 256, 9216, 256000, 8192, true, 10000, 256},
    {"gemma-2-9b", 9241705984, kF, kG2, 42, 3584, 16, 8, 256, 14336, 256000, 8192, true, 10000,
     256},
    {"gemma-2-27b", 27227128320, kF, kG2, 46, 4608, 32, 16, 128, 36864, 256000, 8192, true, 10000,
     144},
    {"gemma-3-1b", 999885952, kF, kG3, 26, 1152, 4, 1, 256, 6912, 262144, 32768, true, 1e6, 256,
     512},
    {"gemma-3-4b", 3880099328, kF, kG3, 34, 2560, 8, 4, 256, 10240, 262144, 131072, true, 1e6, 256,
     1024},
    {"gemma-3-12b", 11765788416, kF, kG3, 48, 3840, 16, 8, 256, 15360, 262144, 131072, true, 1e6,
     256, 1024},
    {"gemma-3-27b", 27009002240, kF, kG3, 62, 5376, 32, 16, 128, 21504, 262144, 131072, true, 1e6,
     168, 1024},
    // Abdin et al., "Phi-3 Technical Report", 2024. (Phi-3-small is another architecture.)
    {"phi-3-mini", 3821079552, kF, kP, 32, 3072, 32, 32, 96, 8192, 32064, 4096, false, 10000, 0,
     2047},
    {"phi-3-medium", 13960238080, kF, kP, 40, 5120, 40, 10, 128, 17920, 32064, 4096, false, 10000,
     0, 2047},
    // Devlin et al., "BERT", 2019: the encoder with its pooler, uncased and cased.
    {"bert-base", 109482240, Kind::kEncoder, kGp, 12, 768, 12, 12, 64, 3072, 30522, 512, true},
    {"bert-large", 335141888, Kind::kEncoder, kGp, 24, 1024, 16, 16, 64, 4096, 30522, 512, true},
    {"bert-base-cased", 108310272, Kind::kEncoder, kGp, 12, 768, 12, 12, 64, 3072, 28996, 512,
     true},
    {"bert-large-cased", 333579264, Kind::kEncoder, kGp, 24, 1024, 16, 16, 64, 4096, 28996, 512,
     true},
    // Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021: 224 × 224 pixels, 1,000 classes;
    // context: patches and the class token.
    {"vit-b-16", 86567656, Kind::kVision, kGp, 12, 768, 12, 12, 64, 3072, 1000, 197, false, 10000,
     0, 0, 1, 1, 768},
    {"vit-l-16", 304326632, Kind::kVision, kGp, 24, 1024, 16, 16, 64, 4096, 1000, 197, false, 10000,
     0, 0, 1, 1, 768},
    {"vit-h-14", 632045800, Kind::kVision, kGp, 32, 1280, 16, 16, 80, 5120, 1000, 257, false, 10000,
     0, 0, 1, 1, 588},
    // 4 × (4,096² + 4,096), from 3,072 inputs to 1,000 classes.
    {"mlp", 83809256, Kind::kPlain, kGp, 4, 4096, 1, 1, 4096, 3072, 1000, 1, false},
};

FitModel ModelOf(const Row& row) {
  FitModel made{.name = row.name, .kind = row.kind};
  model::ModelSpec& spec = made.spec;
  spec = model::DefaultsOf(row.family);
  spec.layers = row.layers;
  spec.hidden = row.hidden;
  spec.heads = row.heads;
  spec.kv_heads = row.kv_heads;
  spec.head_size = row.head_size;
  spec.ffn = row.ffn;
  spec.vocab = row.vocab;
  spec.context = row.context;
  spec.tied_embeddings = row.tied;
  spec.rope_theta = row.rope_theta;
  spec.query_scale = row.query_scale;
  if (row.window >= 0) spec.sliding_window = row.window;
  if (spec.sliding_window > 0) {
    spec.full_attention = model::UsualFullAttention(row.family, row.layers);
  }
  made.experts = row.experts;
  made.experts_per_token = row.per_token;
  made.patch_inputs = row.patch_inputs;
  return made;
}

// Other names of a row, as its authors, Hugging Face and torchvision write them.
constexpr std::pair<const char*, const char*> kAliases[] = {{"vit-base", "vit-b-16"},
                                                            {"vit-base-patch16-224", "vit-b-16"},
                                                            {"vit-large", "vit-l-16"},
                                                            {"vit-large-patch16-224", "vit-l-16"},
                                                            {"vit-huge", "vit-h-14"},
                                                            {"vit-huge-patch14-224", "vit-h-14"},
                                                            {"vit-b", "vit-b-16"},
                                                            {"vit-l", "vit-l-16"},
                                                            {"vit-h", "vit-h-14"},
                                                            {"bert-base-uncased", "bert-base"},
                                                            {"bert-large-uncased", "bert-large"}};

// Words of names that say how weights were trained, not how many there are.
constexpr const char* kTrainings[] = {"hf", "chat", "instruct", "it", "pt", "v0.1", "4k"};

std::string Lower(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

// Names that are one but for how words are joined: "gpt-2" and "gpt2", "vit-b/16" and "vit-b-16".
std::string Joined(absl::string_view name) {
  std::string joined;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool between = (name[i] == '-' || name[i] == '/') && i > 0 && i + 1 < name.size() &&
                         absl::ascii_isalpha(name[i - 1]) && absl::ascii_isdigit(name[i + 1]);
    if (!between) joined += name[i] == '/' ? '-' : name[i];
  }
  return joined;
}

// "meta-llama/Meta-Llama-3-8B-Instruct" is llama-3-8b; `base` names no training where it is a size.
std::string WithoutTraining(absl::string_view name, bool with_base) {
  std::vector<std::string> kept;
  for (const absl::string_view word : absl::StrSplit(name, '-')) {
    const bool training =
        std::find(std::begin(kTrainings), std::end(kTrainings), word) != std::end(kTrainings) ||
        (kept.empty() && word == "meta") || (!with_base && word == "base");
    if (!training) kept.emplace_back(word);
  }
  return absl::StrJoin(kept, "-");
}

const Row* RowNamed(absl::string_view name) {
  const std::string joined = Joined(name);
  for (const auto& [alias, of] : kAliases) {
    if (joined == Joined(alias)) return RowNamed(of);
  }
  for (const Row& row : kRows) {
    if (joined == Joined(row.name)) return &row;
  }
  return nullptr;
}

// By the name itself, then without whoever publishes it, then without how it was trained.
const Row* RowOf(absl::string_view name) {
  const std::string whole = Lower(name);
  const std::string own = whole.substr(whole.rfind('/') + 1);
  for (const std::string& each :
       {whole, own, WithoutTraining(own, true), WithoutTraining(own, false)}) {
    if (const Row* row = RowNamed(each)) return row;
  }
  return nullptr;
}

// Insertions, deletions and substitutions that lead from one name to the other.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

double Parts(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (const int64_t factor : factors) product *= static_cast<double>(factor);
  return product;
}

double EncoderParameters(const FitModel& m) {
  const model::ModelSpec& s = m.spec;
  const double c = Parts({s.hidden}), f = Parts({s.ffn});
  const double block = 4 * (c * c + c) + 2 * c * f + f + c + 4 * c;  // biases; two norms
  const double blocks = Parts({s.layers}) * block;
  if (m.kind == Kind::kEncoder) {  // two token types, a norm, a pooler
    return c * (Parts({s.vocab}) + Parts({s.context}) + 2) + 2 * c + blocks + c * c + c;
  }
  const double patches = Parts({m.patch_inputs, s.hidden}) + c;
  return patches + c + Parts({s.context, s.hidden}) + blocks + 2 * c + Parts({s.vocab}) * (c + 1);
}

}  // namespace

double FitModel::parameters() const {
  const auto hidden = static_cast<double>(spec.hidden);
  switch (kind) {
    case Kind::kFamily:
      return model::ParameterCount(spec);
    case Kind::kMoe: {
      const double more = static_cast<double>(experts - 1) * 3 * Parts({spec.hidden, spec.ffn});
      return model::ParameterCount(spec) +
             static_cast<double>(spec.layers) * (more + Parts({spec.hidden, experts}));
    }
    case Kind::kEncoder:
    case Kind::kVision:
      return EncoderParameters(*this);
    case Kind::kPlain:
      return Parts({spec.ffn}) * hidden + hidden +
             Parts({spec.layers}) * (hidden * hidden + hidden) + Parts({spec.vocab}) * (hidden + 1);
  }
  return 0;
}

double FitModel::block_matrices() const {
  const double c = Parts({spec.hidden}), layers = Parts({spec.layers});
  if (kind == Kind::kPlain) return layers * c * c;
  const bool gated = spec.family != Family::kGpt2;
  const double attention = c * Parts({spec.qkv_rows() + spec.attention_width()});
  return layers * (attention + Parts({experts}) * (gated ? 3 : 2) * c * Parts({spec.ffn}));
}

double FitModel::adapter_widths() const {
  const double c = Parts({spec.hidden}), layers = Parts({spec.layers});
  if (kind == Kind::kPlain) return layers * 2 * c;
  const bool gated = spec.family != Family::kGpt2;
  const double width = Parts({spec.attention_width()});
  const double kv = Parts({spec.kv_heads * spec.head_size});
  const double attention = (c + width) + 2 * (c + kv) + (width + c);
  return layers * (attention + Parts({experts}) * (gated ? 3 : 2) * (c + Parts({spec.ffn})));
}

const std::vector<Preset>& AllPresets() {
  static const auto& presets = *[] {
    auto* all = new std::vector<Preset>;
    for (const Row& row : kRows) all->push_back({row.name, row.parameters});
    return all;
  }();
  return presets;
}

absl::StatusOr<FitModel> PresetModel(absl::string_view name) {
  if (const Row* row = RowOf(name)) return ModelOf(*row);
  const std::string wanted = Lower(name);
  const Row* nearest = &kRows[0];
  for (const Row& row : kRows) {
    if (Distance(wanted, row.name) < Distance(wanted, nearest->name)) nearest = &row;
  }
  return absl::NotFoundError(
      absl::StrCat("no preset of that name — the nearest is ", nearest->name));
}

}  // namespace strata::planner
