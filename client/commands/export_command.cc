// strata export: a checkpoint, or another Hugging Face directory, as a Hugging Face directory.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/parameter_source.h"
#include "checkpoint/reader.h"
#include "client/adapter_export.h"
#include "client/checkpoint_job.h"
#include "client/checkpoint_source.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_loading.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "data/tokenizer/tokenizer.h"
#include "model/lora_proto.h"
#include "model/model_spec_proto.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using checkpoint::HuggingFaceWeights;
using checkpoint::LogicalTensorShape;

// What is exported, opened.
struct Source {
  v1::JobSpec job;
  model::ModelSpec model;
  std::vector<LogicalTensorShape> tensors;
  std::string type;                                    // f32, bf16 or f16
  std::map<std::string, checkpoint::DType> types;      // of single tensors
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;  // what `values` reads, if it does
  std::unique_ptr<checkpoint::TensorSource> values;
  MergedModel merged;       // whose values `values` are, with --merge
  bool is_adapter = false;  // a PEFT directory is written
};

// The weights that a job began with still say which type each tensor had; where they are gone, all
// have the one that most had.
void TakeTypes(Source& source) {
  const v1::ModelSpec& model = source.job.model();
  if (model.weights().empty()) return;
  const auto weights = HuggingFaceWeights::Open(model.from(), source.model, source.tensors,
                                                checkpoint::Named::kSome);
  if (weights.ok()) source.types = (*weights)->types();
}

// The values are those of adapters, beside a base that is elsewhere.
absl::Status TakeAdapter(bool merges, Source& source) {
  source.is_adapter = !merges;
  // What is trained has more bits than a base in 16 bits, and is small.
  if (!merges) source.type = "f32";
  if (!merges) return absl::OkStatus();
  ASSIGN_OR_RETURN(source.merged, MergeAdapter(source.job, source.model, source.tensors,
                                               std::move(source.values)));
  source.tensors = source.merged.tensors;
  source.types = source.merged.base->types();
  source.values = std::move(source.merged.values);
  return absl::OkStatus();
}

absl::StatusOr<Source> OpenCheckpointSource(const std::string& path, bool merges,
                                            Terminal& terminal) {
  Source source;
  ASSIGN_OR_RETURN(checkpoint::NewestIntact found, checkpoint::OpenCheckpoint(path));
  for (const checkpoint::Damage& damage : found.damaged) {
    terminal.Say(absl::StrCat("damaged checkpoint: ", damage.what, " — exporting ",
                              found.checkpoint->folder()));
  }
  source.checkpoint = std::move(found.checkpoint);
  ASSIGN_OR_RETURN(source.job, JobOfCheckpoint(source.checkpoint->folder()));
  ASSIGN_OR_RETURN(source.model, model::FromProto(source.job.model()));
  for (const checkpoint::ManifestTensor& tensor : source.checkpoint->manifest().tensors) {
    if (tensor.tensor.state != "param") continue;
    source.tensors.push_back({tensor.tensor.name, tensor.tensor.shape});
  }
  const std::string& type = source.job.model().weights_type();
  source.type = type.empty() ? "f32" : type;
  source.values = std::make_unique<checkpoint::ParameterSource>(source.checkpoint.get());
  if (model::TrainsAdapters(source.job.train())) {
    RETURN_IF_ERROR(TakeAdapter(merges, source));
    return source;
  }
  if (merges) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has no adapters to merge — remove --merge"));
  }
  TakeTypes(source);
  return source;
}

absl::StatusOr<Source> OpenFolderSource(const std::string& path) {
  Source source;
  ASSIGN_OR_RETURN(source.job, checkpoint::JobOfModelFolder(path));
  ASSIGN_OR_RETURN(source.model, model::FromProto(source.job.model()));
  ASSIGN_OR_RETURN(source.tensors, checkpoint::TensorsOfModel(source.model));
  ASSIGN_OR_RETURN(
      std::unique_ptr<HuggingFaceWeights> weights,
      HuggingFaceWeights::Open(path, source.model, source.tensors, checkpoint::Named::kAll));
  source.type = weights->type();
  source.types = weights->types();
  source.values = std::move(weights);
  return source;
}

// The tokenizer's files, and how the model generates where only its own directory says it.
std::vector<std::string> CopiesOf(const v1::JobSpec& job) {
  std::vector<std::string> copies;
  std::error_code error;
  std::string tokenizer = job.data().tokenizer();
  if (!tokenizer.empty() && !fs::is_directory(tokenizer, error)) {
    tokenizer = fs::path(tokenizer).parent_path().string();
  }
  if (!tokenizer.empty()) copies = checkpoint::TokenizerFilesIn(tokenizer);
  const std::string generation = job.model().from() + "/generation_config.json";
  const bool own = tokenizer != job.model().from() && fs::exists(generation, error);
  std::erase_if(copies, [&](const std::string& path) {
    return own && fs::path(path).filename() == "generation_config.json";
  });
  if (own) copies.push_back(generation);
  return copies;
}

std::string ConfigOf(const Source& source, const std::string& type) {
  checkpoint::ConfigToWrite config;
  config.model = source.model;
  config.type = type;
  if (source.job.model().has_from()) {
    config.original =
        checkpoint::PosixFileSystem()
            ->ReadWhole(absl::StrCat(source.job.model().from(), "/", checkpoint::kConfigName),
                        checkpoint::kLargestConfigBytes)
            .value_or("");
  }
  if (source.job.data().has_tokenizer()) {
    const auto tokenizer = data::Tokenizer::Load(source.job.data().tokenizer());
    if (tokenizer.ok()) config.end_of_text = (*tokenizer)->end_of_text();
  }
  return checkpoint::FormatConfig(config);
}

absl::StatusOr<checkpoint::ExportedDirectory> Write(const Arguments& arguments,
                                                    const std::string& output, Terminal& terminal) {
  ASSIGN_OR_RETURN(const std::string from, FindCheckpoint(arguments.positional()[0], ""));
  RETURN_IF_ERROR(CheckPathText("--output", output));
  ASSIGN_OR_RETURN(Source source,
                   checkpoint::IsModelFolder(from)
                       ? OpenFolderSource(from)
                       : OpenCheckpointSource(from, arguments.Has("--merge"), terminal));
  if (arguments.Has("--merge") && source.checkpoint == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, ": has no adapters to merge — remove --merge"));
  }
  if (arguments.Has("--dtype")) {
    source.type = arguments.Text("--dtype");
    source.types.clear();
  }
  if (source.is_adapter) {
    return ExportAdapter(source.job, source.model, source.tensors, *source.values,
                         checkpoint::WeightsType(source.type).value_or(checkpoint::DType::kF32),
                         output);
  }
  checkpoint::ExportRequest request;
  request.tensors = checkpoint::StoredTensorsOf(source.model, source.tensors);
  request.source = source.values.get();
  request.config = ConfigOf(source, source.type);
  request.type = checkpoint::WeightsType(source.type).value_or(checkpoint::DType::kF32);
  request.types = source.types;
  request.copies = CopiesOf(source.job);
  request.on_progress = [&](int64_t written, int64_t of) {
    terminal.Transient(absl::StrCat("writing ", common::FormatBytes(static_cast<double>(written)),
                                    " of ", common::FormatBytes(static_cast<double>(of))));
  };
  return checkpoint::ExportDirectory(request, output);
}

int Export(const Arguments& arguments, Terminal& terminal) {
  const std::string output = Absolute(arguments.Text("--output"));
  const auto exported = Write(arguments, output, terminal);
  if (absl::IsAlreadyExists(exported.status())) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("--output ", exported.status().message())),
                terminal);
  }
  if (absl::IsDataLoss(exported.status()) || absl::IsNotFound(exported.status())) {
    return Fail(absl::InvalidArgumentError(exported.status().message()), terminal);
  }
  if (!exported.ok()) return Fail(exported.status(), terminal);
  terminal.Say(absl::StrCat(output, ": ", exported->tensors, " tensors, ",
                            common::FormatBytes(static_cast<double>(exported->bytes)), " in ",
                            exported->files, exported->files == 1 ? " file" : " files"));
  terminal.Say(absl::StrCat("next: strata generate --from ", arguments.Text("--output"),
                            " --prompt TEXT, or AutoModelForCausalLM.from_pretrained"));
  return kExitDone;
}

}  // namespace

Command ExportCommand() {
  Command command;
  command.name = "export";
  command.usage = "CHECKPOINT|DIR -o DIR [--dtype T] [--merge]";
  command.summary = "Write a trained model as a Hugging Face directory";
  command.arguments = {"CHECKPOINT|DIR"};
  command.most_arguments = 1;
  command.flags = {
      {"--output", Flag::Kind::kText, "DIR", "the directory to write; new, or empty", "-o"},
      {"--dtype",
       Flag::Kind::kWord,
       "T",
       "of the weights (default: as they were loaded; f32 from scratch)",
       "",
       0,
       0,
       {"f32", "bf16", "f16"}},
      {"--merge", Flag::Kind::kSwitch, "", "add trained adapters to the weights they belong to"},
  };
  command.flags[0].required = true;
  command.run = Export;
  return command;
}

}  // namespace strata::client
