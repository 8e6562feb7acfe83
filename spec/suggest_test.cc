#include "spec/suggest.h"

#include <gtest/gtest.h>

#include "proto/strata/v1/job.pb.h"
#include "spec/schema.h"

namespace strata::spec {
namespace {

TEST(EditDistance, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("f23", "f32"), 1);
  EXPECT_EQ(EditDistance("shrad", "shard"), 1);
  EXPECT_EQ(EditDistance(std::string(1000, 'a'), std::string(1000, 'a')), 0);
}

TEST(Nearest, OnlyWhatIsLikelyMeant) {
  EXPECT_EQ(Nearest("lama", {"gpt2", "llama"}), "llama");
  EXPECT_EQ(Nearest("zero9", {"none", "zero1", "zero2"}), "zero1");
  EXPECT_EQ(Nearest("elephant", {"llama", "gpt2"}), "");
}

TEST(SuggestKey, SameLevelByKeyOtherLevelByPath) {
  const auto& job = *strata::v1::JobSpec::descriptor();
  const auto& train = *strata::v1::TrainSpec::descriptor();
  EXPECT_EQ(SuggestKey(job, job, "", "modle").text, "model");
  EXPECT_EQ(SuggestKey(job, train, "train", "stpes").text, "steps");
  EXPECT_EQ(SuggestKey(job, train, "train", "stpes").path, "train.steps");
  EXPECT_EQ(SuggestKey(job, train, "train", "learning_rte").text, "train.optimizer.learning_rate");
  EXPECT_EQ(SuggestKey(job, job, "", "learning_rate").text, "train.optimizer.learning_rate");
  EXPECT_EQ(SuggestKey(job, train, "train", "kv_heads").text, "model.kv_heads");
  EXPECT_EQ(SuggestKey(job, train, "train", "colour_of_paint").text, "");
}

TEST(SuggestKey, OfSeveralLevelsTheOneBelowWins) {
  // `name` and `every_steps` exist in several sections.
  EXPECT_EQ(SuggestKey(*strata::v1::JobSpec::descriptor(), *strata::v1::TrainSpec::descriptor(),
                       "train", "name")
                .text,
            "train.optimizer.name");
}

// Every field has a type that the reader knows, and enums follow the naming that makes their words.
void CheckTypes(const google::protobuf::Descriptor& section) {
  using google::protobuf::FieldDescriptor;
  for (const std::string& key : KeysOf(section)) {
    const FieldDescriptor& field = *FindKey(section, key);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field.is_map() || IsDuration(field)) break;  // a reader of their own
        CheckTypes(*field.message_type());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        EXPECT_FALSE(WordsOf(*field.enum_type()).empty());
        EXPECT_EQ(FindWord(*field.enum_type(), "unspecified"), nullptr);
        for (const std::string& word : WordsOf(*field.enum_type())) {
          EXPECT_EQ(WordOf(*FindWord(*field.enum_type(), word)), word);
        }
        EXPECT_TRUE(field.has_presence());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_BOOL:
      case FieldDescriptor::CPPTYPE_STRING:
        EXPECT_TRUE(field.has_presence() || field.is_repeated()) << field.full_name();
        break;
      default:
        ADD_FAILURE() << field.full_name() << " has a type that the reader does not know";
    }
  }
}

TEST(Schema, EveryFieldCanBeRead) { CheckTypes(*strata::v1::JobSpec::descriptor()); }

TEST(Schema, BoundsAreFoundWithIndices) {
  EXPECT_NE(FindBounds("data.train[3].weight"), nullptr);
  EXPECT_EQ(FindBounds("data.train[3].path"), nullptr);
}

TEST(Describe, WritesLargeBoundsInFull) {
  EXPECT_EQ(Describe(*FindBounds("resources.priority"), 2e6),
            "at least -1000000 and at most 1000000");
}

}  // namespace
}  // namespace strata::spec
