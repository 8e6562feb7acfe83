// Jobs whose model stands in a Hugging Face directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "spec/job_file.h"

namespace strata::spec {
namespace {

using testing::HasSubstr;

// A job whose model the directory tells.
constexpr char kFromDirectory[] = "model: {from: dir}\ndata: {train: [{path: text.txt}]}\n";

ReadOptions WithDirectory() {
  ReadOptions options;
  options.model_of = [](const std::string& from) {
    EXPECT_EQ(from, "dir");
    ModelDirectory directory;
    directory.has_tokenizer = true;
    v1::ModelSpec& model = directory.model;
    model.set_family(v1::ModelSpec::FAMILY_GEMMA2);
    model.set_layers(2);
    model.set_hidden(64);
    model.set_heads(4);
    model.set_kv_heads(2);
    model.set_head_size(16);
    model.set_ffn(96);
    model.set_vocab(100);
    model.set_context(128);
    model.set_sliding_window(32);
    model.add_full_attention_layers(1);
    model.set_logit_softcap(0);
    model.set_activation(v1::ModelSpec::ACTIVATION_GELU_TANH);
    model.mutable_rope()->set_theta(20000);
    return directory;
  };
  return options;
}

TEST(ModelDirectory, HasWhatThatTells) {
  Problems problems("job.yaml");
  const JobFile file = ReadJob(kFromDirectory, WithDirectory(), problems);
  EXPECT_EQ(problems.ToString(), "");
  EXPECT_EQ(file.job.model().from(), "dir");
  EXPECT_EQ(file.job.model().layers(), 2);
  EXPECT_EQ(file.job.data().tokenizer(), "dir");
  EXPECT_EQ(file.job.train().sequence(), 128) << "as far as the model goes";

  // As a job that was handed over it is read back, with the files that the client has seen.
  v1::JobSpec job = file.job;
  job.mutable_model()->set_weights_type("bf16");
  v1::WeightsFile& weights = *job.mutable_model()->add_weights();
  weights.set_path("/dir/model.safetensors");
  weights.set_bytes(123);
  weights.set_digest("0123");
  ReadOptions completed;
  completed.completed = true;
  const JobFile again = ReadJob(WriteJob(job), completed, problems);
  EXPECT_EQ(problems.ToString(), "");
  EXPECT_EQ(again.job.DebugString(), job.DebugString());
}

TEST(ModelDirectory, IsCheckedAgainstTheRestOfTheFile) {
  const auto told = [](const std::string& setting) {
    Problems problems("job.yaml");
    ReadOptions options = WithDirectory();
    options.settings = {setting};
    ReadJob(kFromDirectory, options, problems);
    return problems.ToString();
  };
  EXPECT_THAT(told("train.sequence=129"),
              HasSubstr("train.sequence: sequence 129 is longer than the model's 128 positions"));
  EXPECT_THAT(told("parallel.tensor=8"), HasSubstr("tensor"));
  EXPECT_THAT(told("model.weights_type=f32"), HasSubstr("given together with model.from"));
  Problems problems("job.yaml");
  ReadOptions completed;
  completed.completed = true;
  ReadJob(kFromDirectory, completed, problems);
  EXPECT_THAT(problems.ToString(), HasSubstr("model.from: its sizes are missing"));
}

}  // namespace
}  // namespace strata::spec
