#include "spec/job_file.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "spec/defaults.h"
#include "spec/good_job.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

using google::protobuf::util::MessageDifferencer;
using strata::v1::JobSpec;
using strata::v1::ModelSpec;
using strata::v1::ParallelSpec;
using testing::HasSubstr;
using testing::StartsWith;

struct Outcome {
  JobFile file;
  std::string told;
};

Outcome Read(const std::string& text, const ReadOptions& options = {}) {
  Problems problems("job.yaml");
  Outcome outcome{ReadJob(text, options, problems), ""};
  outcome.told = problems.ToString();
  return outcome;
}

Outcome ReadSet(std::vector<std::string> settings) {
  ReadOptions options;
  options.settings = std::move(settings);
  return Read(GoodJob(), options);
}

std::string Unsupported(const std::vector<std::string>& settings) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = settings;
  const JobFile file = ReadJob(GoodJob(), options, problems);
  EXPECT_EQ(problems.ToString(), "");
  CheckSupported(file.job, file.positions, problems);
  return problems.ToString();
}

constexpr char kLeast[] =
    "model: {family: llama, layers: 2, hidden: 64, heads: 4, ffn: 128}\n"
    "data: {train: [{path: text.txt}]}\n";

TEST(Defaults, FillInWhatTheFileLeftOut) {
  ReadOptions options;
  options.default_name = NameFromFile("/jobs/my job.yaml");
  const Outcome read = Read(kLeast, options);
  ASSERT_EQ(read.told, "");
  const JobSpec& job = read.file.job;
  EXPECT_EQ(job.name(), "my-job");
  EXPECT_EQ(job.model().kv_heads(), 4);
  EXPECT_EQ(job.model().head_size(), 16);
  EXPECT_EQ(job.model().vocab(), 256);
  EXPECT_EQ(job.model().context(), 256);
  EXPECT_FALSE(job.model().tied_embeddings());
  EXPECT_EQ(job.model().rope().theta(), 10000);
  EXPECT_EQ(job.data().train(0).weight(), 1);
  EXPECT_TRUE(job.data().shuffle());
  EXPECT_EQ(job.train().optimizer().learning_rate(), 1e-3);
  EXPECT_EQ(job.train().schedule().warmup_steps(), 50);
  EXPECT_EQ(job.train().micro_batch(), 4);
  EXPECT_EQ(job.parallel().data(), 1);
  EXPECT_EQ(job.parallel().shard(), ParallelSpec::SHARD_NONE);
  EXPECT_EQ(job.parallel().virtual_shards(), 1);
  EXPECT_EQ(job.resources().ranks(), 1);
  EXPECT_FALSE(job.has_evaluate());
}

JobSpec WithDefaults(const std::vector<std::string>& settings) {
  ReadOptions options;
  options.settings = settings;
  const Outcome read = Read(kLeast, options);
  EXPECT_EQ(read.told, "");
  return read.file.job;
}

TEST(Defaults, MicroBatchIsTheLargestDivisorUpToFourOfARanksOrAVirtualShardsSequences) {
  EXPECT_EQ(WithDefaults({"train.global_batch=12", "parallel.data=2"}).train().micro_batch(), 3);
  const std::vector<std::string> given = {"train.global_batch=12", "parallel.data=2",
                                          "parallel.virtual_shards=4"};
  EXPECT_EQ(WithDefaults(given).train().micro_batch(), 3);
  EXPECT_EQ(
      WithDefaults({"train.global_batch=8", "parallel.virtual_shards=8"}).train().micro_batch(), 1);
  EXPECT_EQ(
      WithDefaults({"train.global_batch=8", "parallel.virtual_shards=off"}).train().micro_batch(),
      4);
}

TEST(Defaults, VirtualShardsAreDataOrOffWhereGradientsAreSharded) {
  const auto shards = [](const std::string& parallel) {
    const JobSpec job = WithDefaults({"train.global_batch=24", "parallel=" + parallel});
    EXPECT_TRUE(job.parallel().has_virtual_shards());
    return job.parallel().virtual_shards();
  };
  EXPECT_EQ(shards("{data: 3}"), 3);
  EXPECT_EQ(shards("{data: 4, shard: zero1}"), 4);
  EXPECT_EQ(shards("{data: 4, shard: zero2}"), 0);
  EXPECT_EQ(shards("{data: 3, shard: zero3}"), 0);
  EXPECT_EQ(shards("{data: 4, shard: zero1, shard_group: 2}"), 4);
  EXPECT_EQ(shards("{data: 12, shard: zero1, shard_group: 3}"), 0);  // no tree with threes
  EXPECT_EQ(shards("{data: 4, shard: zero3, virtual_shards: 8}"), 8);
}

TEST(Defaults, OfTheLayout) {
  const ParallelSpec plain = WithDefaults({"parallel.data=2"}).parallel();
  EXPECT_FALSE(plain.has_shard_group());
  EXPECT_EQ(plain.expert(), 1);
  EXPECT_EQ(plain.virtual_stages(), 1);
  EXPECT_EQ(plain.context_method(), ParallelSpec::CONTEXT_METHOD_RING);
  EXPECT_EQ(plain.pipeline_schedule(), ParallelSpec::PIPELINE_SCHEDULE_1F1B);
  EXPECT_EQ(plain.micro_order(), ParallelSpec::MICRO_ORDER_DEPTH_FIRST);
  EXPECT_EQ(plain.recompute().mode(), strata::v1::RecomputeSpec::MODE_NONE);
  EXPECT_EQ(WithDefaults({"parallel={data: 4, shard: zero1}"}).parallel().shard_group(), 4);
  EXPECT_EQ(WithDefaults({"parallel.pipeline_schedule=zbv"}).parallel().virtual_stages(), 2);
  EXPECT_EQ(WithDefaults({"parallel.pipeline_schedule=interleaved"}).parallel().virtual_stages(),
            2);
}

TEST(Recompute, IsAWordOrWhatIsKeptInWhichLayers) {
  using strata::v1::RecomputeSpec;
  const auto read = [](const std::string& value) {
    const Outcome outcome = ReadSet({"parallel.recompute=" + value});
    EXPECT_EQ(outcome.told, "") << value;
    return outcome.file.job.parallel().recompute();
  };
  EXPECT_EQ(read("selective").mode(), RecomputeSpec::MODE_SELECTIVE);
  EXPECT_EQ(read("\"full\"").mode(), RecomputeSpec::MODE_FULL);
  EXPECT_EQ(read("{save: []}").mode(), RecomputeSpec::MODE_FULL);
  for (const char* layers : {"0-1", "'0-1'", "\"0-1\""}) {
    const RecomputeSpec some = read("{save: [], layers: " + std::string(layers) + "}");
    EXPECT_FALSE(some.has_mode());
    EXPECT_EQ(some.save_size(), 0);
    EXPECT_EQ(some.layers().first(), 0);
    EXPECT_EQ(some.layers().last(), 1);
  }
  const RecomputeSpec one = read("{layers: 1, save: [qkv, attention]}");
  EXPECT_EQ(one.layers().first(), 1);
  EXPECT_EQ(one.layers().last(), 1);
  EXPECT_EQ(one.save(1), "attention");
  const auto told = [](const std::string& value) {
    return ReadSet({"parallel.recompute=" + value}).told;
  };
  EXPECT_THAT(told("{}"), HasSubstr("neither save nor layers is given"));
  EXPECT_THAT(told("ful"), HasSubstr("unknown value ful (the values are none, selective, full) — "
                                     "did you mean full?"));
  EXPECT_THAT(told("{layers: 1-0}"), HasSubstr("ends before it begins"));
  EXPECT_THAT(told("{layers: a-b}"),
              HasSubstr("parallel.recompute.layers: must be layers such as"));
  EXPECT_THAT(told("{layers: -3}"), HasSubstr("is no range"));
  EXPECT_THAT(told("{save: qkv}"), HasSubstr("must be a list"));
  EXPECT_THAT(told("{save: [[qkv]]}"), HasSubstr("parallel.recompute.save[0]: must be a text"));
  EXPECT_THAT(told("{mode: full}"), HasSubstr("unknown field"));
  EXPECT_THAT(told("{save: [atention]}"), HasSubstr("did you mean attention?"));
}

TEST(Lists, OfNumbersAreReadWithTheirIndices) {
  const Outcome read = ReadSet({"model.layers=4", "parallel={pipeline: 2, stages: [1, 3]}"});
  EXPECT_EQ(read.told, "");
  EXPECT_EQ(read.file.job.parallel().stages(1), 3);
  const auto told = [](const char* stages) {
    return ReadSet(
               {"model.layers=4", "parallel={pipeline: 2, stages: " + std::string(stages) + "}"})
        .told;
  };
  EXPECT_EQ(told("[5, -1]"), "--set:1:36: parallel.stages[1]: must be at least 1, not -1\n");
  EXPECT_THAT(told("[1, x]"), HasSubstr("parallel.stages[1]: must be a whole number: x"));
  EXPECT_THAT(told("['1', 3]"),
              HasSubstr("parallel.stages[0]: must be a whole number, not the text"));
  EXPECT_THAT(told("2"), HasSubstr("parallel.stages: must be a list"));
  EXPECT_THAT(told("[1, 2]"), HasSubstr("3 layers in all, the model has 4"));
}

TEST(Labels, AreTextsOfABoundedForm) {
  const Outcome good = ReadSet({"labels={team: nlp, app.kubernetes.io/name: 7}"});
  EXPECT_EQ(good.told, "");
  EXPECT_EQ(good.file.job.labels().at("team"), "nlp");
  EXPECT_EQ(good.file.job.labels().at("app.kubernetes.io/name"), "7");
  EXPECT_THAT(ReadSet({"labels={team: -nlp}"}).told,
              HasSubstr("labels.team: -nlp is no label's value"));
  EXPECT_THAT(ReadSet({"labels={\"a b\": x}"}).told, HasSubstr("is no label's key"));
  EXPECT_THAT(ReadSet({"labels={team: [x]}"}).told, HasSubstr("labels.team: must be a text"));
  EXPECT_THAT(ReadSet({"labels=[team]"}).told, HasSubstr("must be a section such as {team: nlp}"));
  std::string many = "labels={k0: v";
  for (int i = 1; i <= 32; ++i) many += ", k" + std::to_string(i) + ": v";
  EXPECT_THAT(ReadSet({many + "}"}).told, HasSubstr("at most 32 are allowed"));
}

TEST(TimeLimit, IsADuration) {
  EXPECT_EQ(ReadSet({"time_limit=4h"}).file.job.time_limit().seconds(), 14400);
  EXPECT_EQ(ReadSet({"time_limit=1.5s"}).file.job.time_limit().nanos(), 500'000'000);
  EXPECT_FALSE(ReadSet({}).file.job.has_time_limit());
  EXPECT_THAT(ReadSet({"time_limit=4"}).told, HasSubstr("must be a duration such as 90m or 4h"));
  EXPECT_THAT(ReadSet({"time_limit=0s"}).told, HasSubstr("must be greater than 0"));
  EXPECT_THAT(ReadSet({"time_limit={seconds: 4}"}).told, HasSubstr("must be a duration"));
}

TEST(VirtualShards, AreACountOrOff) {
  const Outcome off = ReadSet({"parallel.virtual_shards=off"});
  EXPECT_EQ(off.told, "");
  EXPECT_TRUE(off.file.job.parallel().has_virtual_shards());
  EXPECT_EQ(off.file.job.parallel().virtual_shards(), 0);
  EXPECT_THAT(ReadSet({"parallel.virtual_shards=0"}).told, HasSubstr("must be at least 1, not 0"));
  EXPECT_THAT(ReadSet({"parallel.virtual_shards=of"}).told,
              HasSubstr("must be a whole number or off: of"));
}

TEST(NameFromFile, IsAlwaysAName) {
  EXPECT_EQ(NameFromFile("a/bible.yaml"), "bible");
  EXPECT_EQ(NameFromFile("bible.v2.yaml"), "bible.v2");
  EXPECT_EQ(NameFromFile("../ä.yaml"), "job");
  EXPECT_EQ(NameFromFile(""), "job");
}

TEST(Positions, PointToTheValueOrTheNearestSection) {
  const PositionMap positions = Read(GoodJob()).file.positions;
  EXPECT_EQ(positions.Of("data.train[0].path").line, 14);
  EXPECT_EQ(positions.Of("data.train[0].path").column, 13);
  EXPECT_EQ(positions.Of("data.train[0].weight").line, 14);
  EXPECT_EQ(positions.Of("train.gradient_clip").line, 18);
  EXPECT_EQ(positions.Of("nowhere.at.all").line, 1);
}

TEST(QuotedWords, AreTheSameAsPlainOnes) {
  const Outcome json = Read(R"({
  "name": "bible",
  "model": {"family": "llama", "layers": 2, "hidden": 64, "heads": 4, "ffn": 128},
  "data": {"train": [{"path": "text.txt"}], "shuffle": false},
  "train": {"precision": "f32", "micro_batch": "auto", "schedule": {"name": "wsd"}},
  "parallel": {"shard": "zero1", "data": 2}
})");
  ASSERT_EQ(json.told, "");
  EXPECT_EQ(json.file.job.model().family(), ModelSpec::FAMILY_LLAMA);
  EXPECT_EQ(json.file.job.parallel().shard(), ParallelSpec::SHARD_ZERO1);
  EXPECT_EQ(json.file.job.train().micro_batch(), 0);
  EXPECT_EQ(Read(Changed("shard: none", "shard: 'none'")).told, "");
  const Outcome folded = Read(Changed("name: bad", "name: >-\n  folded"));
  EXPECT_EQ(folded.told, "");
  EXPECT_EQ(folded.file.job.name(), "folded");
  EXPECT_TRUE(ReadSet({"parallel=\"auto\""}).file.job.parallel().automatic());
  EXPECT_THAT(Read(Changed("shard: none", "shard: 'zero9'")).told,
              HasSubstr("unknown value zero9"));
  EXPECT_THAT(Read(Changed("layers: 2", "layers: '2'")).told,
              HasSubstr("must be a whole number, not the text \"2\""));
  EXPECT_THAT(Read(Changed("fraction: 0.1", "fraction: \"0.1\"")).told,
              HasSubstr("must be a number, not the text"));
}

TEST(Setting, ReplacesAddsAndCreatesSections) {
  const Outcome read =
      ReadSet({"train.steps=7", "train.optimizer={learning_rate: 2e-3}", "data.train[0].weight=2",
               "data.train[1]={path: more.txt}", "parallel.data=2", "name=other"});
  ASSERT_EQ(read.told, "");
  EXPECT_EQ(read.file.job.train().steps(), 7);
  EXPECT_EQ(read.file.job.train().optimizer().learning_rate(), 2e-3);
  EXPECT_EQ(read.file.job.data().train(0).weight(), 2);
  EXPECT_EQ(read.file.job.data().train(1).path(), "more.txt");
  EXPECT_EQ(read.file.job.parallel().virtual_shards(), 2);  // defaults come after settings
  EXPECT_EQ(read.file.job.name(), "other");
}

TEST(Setting, CreatesSectionsThatTheFileLacks) {
  ReadOptions options;
  options.settings = {"parallel.data=2", "train.schedule.name=constant"};
  const Outcome read = Read(kLeast, options);
  ASSERT_EQ(read.told, "");
  EXPECT_EQ(read.file.job.resources().ranks(), 2);
}

TEST(Setting, ProblemsStandInTheSetting) {
  EXPECT_EQ(ReadSet({"train.stpes=5"}).told,
            "--set:1:7: train.stpes: unknown field — did you mean steps?\n");
  EXPECT_THAT(ReadSet({"train.steps=abc"}).told,
              StartsWith("--set:1:13: train.steps: must be a whole number: abc"));
  EXPECT_EQ(ReadSet({"train.steps"}).told,
            "--set:1:12: train.steps: no value — write --set PATH=VALUE\n");
  EXPECT_THAT(ReadSet({"train.steps="}).told,
              StartsWith("--set:1:13: train.steps: must be a whole number, not nothing"));
  EXPECT_THAT(ReadSet({"data.train[5].path=x"}).told,
              StartsWith("--set:1:11: data.train[5].path: index 5 in a list of 1"));
  EXPECT_THAT(ReadSet({"train.steps.more=1"}).told, HasSubstr("no section"));
  EXPECT_THAT(ReadSet({"data.train={a: [}"}).told, StartsWith("--set:1:"));
  EXPECT_THAT(ReadSet({"train.optimizer=name: adamw"}).told, HasSubstr("flow style"));
  EXPECT_THAT(ReadSet({"train.steps=&a 1"}).told, HasSubstr("anchor"));
  for (const char* bad :
       {"=5", ".train=1", "train.=1", "train..steps=1", "[0]=1", "data.train[x]=1", "data.train[=1",
        "data.train[99999999999999999999]=1", "tr ain=1"}) {
    EXPECT_THAT(ReadSet({bad}).told, StartsWith("--set:1:")) << bad;
  }
}

TEST(Ranks, SetParallelDataOnlyWhereParallelIsAbsent) {
  ReadOptions options;
  options.ranks = 4;
  const Outcome absent = Read(kLeast, options);
  EXPECT_EQ(absent.told, "");
  EXPECT_EQ(absent.file.job.parallel().data(), 4);
  EXPECT_EQ(absent.file.job.resources().ranks(), 4);
  EXPECT_THAT(Read(GoodJob(), options).told,
              StartsWith("job.yaml:33:9: parallel.data: --ranks 4 is not the product"));
  options.ranks = 1;
  EXPECT_EQ(Read(GoodJob(), options).told, "");
}

TEST(Ranks, OfTheFileAreDataParallelOnesWhereParallelIsAbsent) {
  const std::string text = std::string(kLeast) + "resources: {ranks: 2}\n";
  const Outcome alone = Read(text);
  EXPECT_EQ(alone.told, "");
  EXPECT_EQ(alone.file.job.parallel().data(), 2);
  ReadOptions options;
  options.ranks = 4;
  EXPECT_THAT(Read(text, options).told, HasSubstr("ranks 2 is not the product"));
  options.settings = {"parallel.tensor=1"};
  EXPECT_THAT(Read(text, options).told, HasSubstr("is not the product"));
}

TEST(VirtualShards, MustBeAPowerOfTwoTimesDataAndDivideTheBatch) {
  const auto told = [](int batch, int data, int shards) {
    return ReadSet({"train.global_batch=" + std::to_string(batch),
                    "parallel.data=" + std::to_string(data),
                    "parallel.virtual_shards=" + std::to_string(shards)})
        .told;
  };
  EXPECT_EQ(told(8, 1, 4), "");
  EXPECT_EQ(told(8, 2, 4), "");
  EXPECT_EQ(told(8, 4, 4), "");
  EXPECT_EQ(told(24, 1, 3), "");  // one rank holds any tree
  EXPECT_EQ(told(24, 3, 6), "");
  EXPECT_THAT(told(24, 2, 6), HasSubstr("is no power of two times parallel.data 2"));
  EXPECT_THAT(told(8, 4, 2), HasSubstr("not divisible by parallel.data 4"));
  EXPECT_THAT(told(8, 1, 16), HasSubstr("not divisible by virtual_shards 16"));
}

TEST(MicroBatch, DividesTheShareOfAVirtualShard) {
  EXPECT_EQ(ReadSet({"train.micro_batch=4", "parallel.data=2"}).told, "");
  EXPECT_THAT(ReadSet({"train.micro_batch=8", "parallel.data=2"}).told,
              HasSubstr("8 / 2 = 4 is not divisible by micro_batch 8"));
}

TEST(Model, FromExcludesSizes) {
  EXPECT_THAT(ReadSet({"model.from=dir"}).told,
              HasSubstr("model.layers: given together with model.from"));
}

TEST(MisspeltKey, HidesThatTheRightOneIsMissingOnlyIfItIs) {
  EXPECT_EQ(Read(Changed("hidden: 64", "hiden: 66")).told,
            "job.yaml:5:3: model.hiden: unknown field — did you mean hidden?\n");
  const std::string both = Read(Changed("hidden: 64", "hiden: 64\n  hidden: 66")).told;
  EXPECT_THAT(both, HasSubstr("did you mean hidden?"));
  EXPECT_THAT(both, HasSubstr("hidden 66 is not divisible by heads 4"));
}

TEST(Evaluate, NeedsValidationData) {
  EXPECT_THAT(Read(Changed("  validation:\n    fraction: 0.1\n", "")).told,
              HasSubstr("evaluate: there is nothing to evaluate on"));
  EXPECT_THAT(ReadSet({"data.validation.path=x.txt"}).told, HasSubstr("given together with"));
}

TEST(Packing, IsThereWhereItIsAskedForAlone) {
  EXPECT_TRUE(ReadSet({"data.packing=true"}).file.job.data().packing());
  EXPECT_EQ(ReadSet({"data.packing=true"}).told, "");
  EXPECT_FALSE(ReadSet({"data.packing=false"}).file.job.data().has_packing());
}

TEST(Families, FillInWhatTheyDo) {
  const v1::ModelSpec gemma = ReadSet({"model.family=gemma2", "model.layers=5"}).file.job.model();
  EXPECT_EQ(gemma.norm_epsilon(), 1e-6);
  EXPECT_EQ(gemma.activation(), v1::ModelSpec::ACTIVATION_GELU_TANH);
  EXPECT_TRUE(gemma.tied_embeddings());
  EXPECT_EQ(gemma.attention_softcap(), 50);
  EXPECT_EQ(gemma.sliding_window(), 4096);
  EXPECT_THAT(gemma.full_attention_layers(), testing::ElementsAre(1, 3));
  const v1::ModelSpec gpt2 = ReadSet({"model.family=gpt2", "model.kv_heads=4"}).file.job.model();
  EXPECT_TRUE(gpt2.attention_bias() && gpt2.output_bias() && gpt2.feed_forward_bias());
  EXPECT_FALSE(gpt2.has_sliding_window());
  // Jobs of Llamas stay what they were.
  const v1::ModelSpec llama = ReadSet({}).file.job.model();
  EXPECT_FALSE(llama.has_norm_epsilon() || llama.has_activation() || llama.has_attention_bias());
}

TEST(Adapters, DefaultsAreThoseOfTheMethod) {
  const v1::TrainSpec full = ReadSet({}).file.job.train();
  EXPECT_FALSE(full.has_lora() || full.has_quantize());
  const v1::TrainSpec lora = ReadSet({"train.method=lora"}).file.job.train();
  EXPECT_EQ(lora.lora().rank(), 16);
  EXPECT_EQ(lora.lora().alpha(), 32);
  EXPECT_THAT(lora.lora().targets(), testing::ElementsAre("all-linear"));
  EXPECT_FALSE(lora.has_quantize());
  const v1::TrainSpec qlora = ReadSet({"train.method=qlora"}).file.job.train();
  EXPECT_EQ(qlora.quantize().type(), v1::QuantizeSpec::TYPE_NF4);
  EXPECT_EQ(qlora.quantize().block(), 64);
  EXPECT_TRUE(qlora.quantize().double_());
  const v1::TrainSpec int8 =
      ReadSet({"train.method=qlora", "train.quantize={type: int8}"}).file.job.train();
  EXPECT_EQ(int8.quantize().type(), v1::QuantizeSpec::TYPE_INT8);
  EXPECT_FALSE(int8.quantize().has_block() || int8.quantize().has_double_());
}

TEST(Adapters, KeysOfOtherTypesOfNumbers_AreRefused) {
  for (const char* key : {"block: 64", "double: true"}) {
    const std::string set = absl::StrCat("train.quantize={type: int8, ", key, "}");
    EXPECT_THAT(ReadSet({"train.method=qlora", set}).told,
                HasSubstr("given, but train.quantize.type is int8, which has one scale per row"));
  }
}

TEST(Adapters, WhatDoesNotGoTogether_IsRefused) {
  EXPECT_THAT(ReadSet({"train.lora={rank: 4}"}).told,
              HasSubstr("train.lora: given, but train.method is not lora or qlora"));
  EXPECT_THAT(ReadSet({"train.method=lora", "train.quantize={block: 64}"}).told,
              HasSubstr("train.quantize: given, but train.method is not qlora"));
  EXPECT_THAT(ReadSet({"train.method=lora"}).told, HasSubstr("give model.from"));
  EXPECT_THAT(ReadSet({"train.method=lora", "train.lora={targets: [q_proj, k_porj]}"}).told,
              HasSubstr("targets[1]: the model's blocks have no linear layer k_porj — did you mean "
                        "k_proj?"));
  EXPECT_THAT(ReadSet({"train.method=lora", "train.lora.rank=0"}).told,
              HasSubstr("train.lora.rank"));
}

TEST(Unsupported, IsRefusedWithItsValue) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"train.precision=fp8"}, "train.precision: fp8 is"},
      {{"train.micro_batch=auto"}, "train.micro_batch: auto is"},
      {{"parallel=auto"}, "parallel: auto is"},
      {{"parallel.update_policy=lagged"}, "parallel.update_policy: lagged is"},
      {{"parallel.update_policy=speculative", "train.precision=bf16"},
       "parallel.update_policy: speculative with other numbers than f32 is"},
      {{"parallel.update_policy=speculative", "train.optimizer={name: sgd}"},
       "parallel.update_policy: speculative with sgd is"},
      {{"memory=auto"}, "memory: auto is"},
      {{"resources.device=H100"}, "a kind of GPU in lower case, such as h100"},
      {{"train.method=qlora", "train.quantize={block: 128}", "train.start_from=c"},
       "train.quantize.block: block 128 is"},
  };
  for (const auto& [settings, says] : cases) {
    EXPECT_THAT(Unsupported(settings), HasSubstr(says)) << settings[0];
  }
  EXPECT_EQ(Unsupported({"parallel={data: 4, shard: zero3, shard_group: 2, recompute: selective}"}),
            "");
  for (const char* quantize : {"{type: int8}", "{double: false}"}) {
    EXPECT_EQ(Unsupported({"train.method=qlora", "train.start_from=c",
                           absl::StrCat("train.quantize=", quantize)}),
              "");
  }
  EXPECT_EQ(Unsupported({"parallel={context: 2, context_method: all_to_all, data: 2}"}), "");
  EXPECT_EQ(Unsupported({"parallel={tensor: 2, pipeline: 2, pipeline_schedule: zero_bubble}"}), "");
  EXPECT_EQ(Unsupported({"parallel.shard=zero1", "parallel.data=2",
                         "resources={device: rtx-a6000, priority: 5, spares: 1, preemptible: true}",
                         "train.schedule.name=wsd", "data.train[0].weight=0.5"}),
            "");
}

TEST(WriteJob, ReadsBackAsTheSameJob) {
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {},
           {"train.micro_batch=auto", "train.seed=123456789012345", "name=a.b-c"},
           {"parallel=auto",
            "data.train[1]={path: \"tricky: [name] #1 \\\"q\\\" \\\\ \\t é\", weight: 0.3}"},
           {"data.train[0].path=\"null\"", "data.train[1]={path: \"123\"}",
            "data.train[2]={path: ~x}"},
           {"resources.preemptible=true", "resources.priority=-3"},
           {"labels={team: nlp, run.kind/x: \"007\", odd: \"null\"}", "time_limit=1h30m"},
           {"parallel={data: 2, shard: zero3, recompute: {save: [qkv], layers: 0-1}}"},
           {"parallel={data: 4, shard: zero2, shard_group: 2, virtual_shards: 8, recompute: full}"},
           {"parallel={virtual_shards: off, micro_order: layer_first, recompute: {layers: 1}}"},
           {"model.layers=4",
            "parallel={pipeline: 2, pipeline_schedule: zbv, stages: [1, 1, 1, 1], context: 2, "
            "context_method: all_to_all}"},
           {"parallel.data=4",
            "resources.topology=[{ranks: 4, within: zone, preferred: true}, "
            "{ranks: 2, within: rack}]"},
           {"train.optimizer.learning_rate=0.1234567890123456789",
            "model.rope.scaling={factor: 8}"},
           {"model.rope.scaling={factor: 8, short_factor: [1, 1.5], long_factor: [2.25, 4]}"},
           {"memory={device: 2GiB, ssd: [{path: /scratch, size: 10GB}], place: {parameters: host, "
            "optimizer: {device: 0.25, ssd: 0.75}}, stream: {resident: 3}}"},
           {"memory={device: 1GiB, stream: auto}"}}) {
    const Outcome first = ReadSet(settings);
    ASSERT_EQ(first.told, "");
    const std::string text = WriteJob(first.file.job);
    const Outcome second = Read(text);
    ASSERT_EQ(second.told, "") << text;
    EXPECT_TRUE(MessageDifferencer::Equals(first.file.job, second.file.job)) << text;
    EXPECT_EQ(WriteJob(second.file.job), text);
  }
}

}  // namespace
}  // namespace strata::spec
