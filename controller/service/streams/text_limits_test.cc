#include "controller/service/streams/text_limits.h"

#include <string>

#include "gtest/gtest.h"

namespace strata::controller {
namespace {

const std::string& Long() {
  static const std::string text(5000, 'x');
  return text;
}

TEST(CutText, KeepsWholeCharactersAndShortTexts) {
  std::string text = "aé";
  CutText(3, text);
  EXPECT_EQ(text, "aé");
  CutText(2, text);
  EXPECT_EQ(text, "a …");
}

TEST(CutTexts, OfEveryKindAtEveryDepth) {
  v1::AgentMessage message;
  message.mutable_ended()->mutable_finished()->set_message(Long());
  message.mutable_ended()->set_cause("hang");
  CutTexts(message);
  EXPECT_EQ(message.ended().finished().message(), Long().substr(0, kMostTextBytes) + " …");
  EXPECT_EQ(message.ended().cause(), "hang");

  v1::EpochPrepared& prepared = *message.mutable_prepared();
  prepared.mutable_plan()->add_notices()->set_text(Long());
  prepared.mutable_newer_checkpoint()->set_path("/" + Long().substr(1, 3999));
  CutTexts(message);
  EXPECT_LT(message.prepared().plan().notices(0).text().size(), 1100u);
  EXPECT_EQ(message.prepared().newer_checkpoint().path().size(), 4000u);

  v1::Register& registered = *message.mutable_register_();
  registered.set_version(Long());
  (*registered.mutable_locality())["rack"] = Long();
  CutTexts(message);
  EXPECT_LT(message.register_().version().size(), 1100u);
  EXPECT_LT(message.register_().locality().at("rack").size(), 1100u);
}

TEST(CutTexts, FragmentsAndLogLinesStayWhole) {
  v1::AgentMessage message;
  (*message.mutable_written()->mutable_fragments())[3] = Long();
  CutTexts(message);
  EXPECT_EQ(message.written().fragments().at(3), Long());
  message.mutable_log()->mutable_line()->set_text(Long());
  CutTexts(message);
  EXPECT_EQ(message.log().line().text(), Long());
}

}  // namespace
}  // namespace strata::controller
