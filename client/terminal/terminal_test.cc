#include "client/terminal/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>

#include "client/terminal/curve.h"
#include "client/terminal/progress.h"
#include "client/terminal/table.h"

namespace strata::client {
namespace {

using strata::v1::StepRecord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CurveOptions Ascii(int width, int height) {
  CurveOptions options;
  options.width = width;
  options.height = height;
  options.unicode = false;
  options.last_x = 5;
  return options;
}

TEST(Output, AFullDiskIsNoticed) {
  std::FILE* full = std::fopen("/dev/full", "w");
  std::FILE* err = std::tmpfile();
  Terminal terminal(full, err, {});
  EXPECT_EQ(terminal.out_error(), 0);
  terminal.Error("messages are no results");
  EXPECT_EQ(terminal.out_error(), 0);
  terminal.Out("a result\n");
  EXPECT_EQ(terminal.out_error(), ENOSPC);
  std::fclose(full);
  std::fclose(err);
}

TEST(DrawCurve, FallingLineInAscii) {
  EXPECT_THAT(DrawCurve({5, 4, 3, 2, 1}, Ascii(5, 5)),
              ElementsAre("       5 |*    ",  //
                          "         | *   ",  //
                          "         |  *  ",  //
                          "         |   * ",  //
                          "       1 |    *",  //
                          "          1   5"));
}

TEST(DrawCurve, SteepStepsHaveNoHoles) {
  EXPECT_THAT(DrawCurve({4, 4, 1, 1}, Ascii(4, 4)),
              ElementsAre("       4 |**  ", "         |  * ", "         |  * ", "       1 |  **",
                          "          1  5"));
}

TEST(DrawCurve, FewerValuesThanColumnsAreJoined) {
  const auto lines = DrawCurve({0, 1}, Ascii(9, 3));
  EXPECT_EQ(lines[1], "         |   ****  ");
}

TEST(DrawCurve, BrailleHasEightDotsACharacter) {
  CurveOptions options = Ascii(2, 1);
  options.unicode = true;
  // Four columns of dots, from the top row to the bottom row.
  EXPECT_EQ(DrawCurve({3, 2, 1, 0}, options)[0], "       3 ┤⠑⢄");
}

TEST(DrawCurve, ValuesThatAreNotFiniteAreLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(DrawCurve({}, Ascii(5, 5)), IsEmpty());
  EXPECT_THAT(DrawCurve({nan, infinity}, Ascii(5, 5)), IsEmpty());
  EXPECT_THAT(DrawCurve({2, nan, infinity, 1}, Ascii(4, 2))[0], HasSubstr("       2 |"));
}

TEST(DrawCurve, ConstantSeriesAndOneValueDraw) {
  EXPECT_EQ(DrawCurve({3, 3, 3}, Ascii(3, 3))[1], "         |***");
  EXPECT_EQ(DrawCurve({3}, Ascii(3, 1))[0], "       3 |*  ");
}

TEST(DrawCurve, MoreValuesThanColumnsAreAveraged) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i % 2 == 0 ? 0 : 2);
  for (const std::string& line : DrawCurve(values, Ascii(10, 3))) EXPECT_LE(line.size(), 20u);
}

StepRecord Step(int64_t step, double seconds) {
  StepRecord record;
  record.set_step(step);
  record.set_loss(5.54517);
  record.set_grad_norm(1.2345);
  record.set_tokens(8192);
  record.set_seconds(seconds);
  return record;
}

TEST(Progress, LineHasStepLossNormRateAndEta) {
  Progress progress(600);
  progress.Add(Step(1, 2.0));
  EXPECT_EQ(progress.Line(), "step 1/600  loss 5.5452  norm 1.23  4.1k tok/s  ETA 19 min 58 s");
}

TEST(Progress, FirstStepDoesNotCountInTheRate) {
  Progress progress(12);
  progress.Add(Step(1, 100.0));
  for (int64_t step = 2; step <= 10; ++step) progress.Add(Step(step, 1.0));
  EXPECT_THAT(progress.Line(), HasSubstr("8.2k tok/s  ETA 2 s"));
}

TEST(Progress, LastStepHasNoEta) {
  Progress progress(10);
  StepRecord last = Step(10, 1.0);
  last.set_validation_loss(1.5);
  progress.Add(last);
  EXPECT_EQ(progress.Line(),
            "step 10/10  loss 5.5452  norm 1.23  8.2k tok/s  validation loss 1.5000");
}

TEST(Progress, ValuesThatAreNotFiniteAreSaidSo) {
  Progress progress(10);
  StepRecord last = Step(10, 1.0);
  last.set_loss(-std::numeric_limits<double>::quiet_NaN());
  last.set_grad_norm(std::numeric_limits<double>::infinity());
  progress.Add(last);
  EXPECT_EQ(progress.Line(), "step 10/10  loss not finite  norm not finite  8.2k tok/s");
}

TEST(Progress, LinesAreDueAtTheFirstTheLastAndEvenSteps) {
  Progress progress(100);
  std::vector<int64_t> told;
  for (int64_t step = 1; step <= 100; ++step) {
    progress.Add(Step(step, 0.001));
    if (progress.DueAt(0)) told.push_back(step);
    EXPECT_FALSE(progress.DueAt(0));
  }
  EXPECT_EQ(told.size(), 21u);
  EXPECT_EQ(told.front(), 1);
  EXPECT_EQ(told.back(), 100);
}

TEST(Progress, LineIsDueAfterTenSilentSeconds) {
  Progress progress(100'000);
  progress.Add(Step(1, 1));
  EXPECT_TRUE(progress.DueAt(0));
  progress.Add(Step(2, 1));
  EXPECT_FALSE(progress.DueAt(9));
  progress.Add(Step(3, 1));
  EXPECT_TRUE(progress.DueAt(10));
}

TEST(FormatRate, PicksItsPrefix) {
  EXPECT_EQ(FormatRate(312.4), "312 tok/s");
  EXPECT_EQ(FormatRate(4096), "4.1k tok/s");
  EXPECT_EQ(FormatRate(2.35e6), "2.35M tok/s");
}

TEST(FormatTable, AlignsColoursAndUnicode) {
  EXPECT_EQ(
      FormatTable({"A", "B"}, {{"\x1b[32mok\x1b[0m", "x"}, {"é", "y"}, {"long", "z"}, {"end"}}),
      "A     B\n\x1b[32mok\x1b[0m    x\né     y\nlong  z\nend\n");
}

std::string Written(std::FILE* file) {
  std::rewind(file);
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Terminal, QuietHidesMessagesNotErrors) {
  std::FILE* err = std::tmpfile();
  Terminal terminal(stdout, err, {});
  terminal.set_quiet();
  terminal.Say("message");
  terminal.Error("error");
  EXPECT_EQ(Written(err), "error\n");
}

TEST(Terminal, TransientLinesNeedATerminal) {
  std::FILE* err = std::tmpfile();
  Terminal plain(stdout, err, {});
  plain.Transient("50 %");
  plain.Say("done");
  EXPECT_EQ(Written(err), "done\n");
  std::FILE* screen = std::tmpfile();
  Terminal::Options options;
  options.animate = true;
  Terminal animated(stdout, screen, options);
  animated.Transient("50 %");
  animated.Say("done");
  EXPECT_EQ(Written(screen), "50 %\r\x1b[Kdone\n");
}

TEST(Terminal, PaintsOnlyWithColour) {
  Terminal::Options options;
  EXPECT_EQ(Terminal(stdout, stderr, options).Paint(Style::kBad, "x"), "x");
  options.color = true;
  EXPECT_EQ(Terminal(stdout, stderr, options).Paint(Style::kBad, "x"), "\x1b[31mx\x1b[0m");
}

}  // namespace
}  // namespace strata::client
