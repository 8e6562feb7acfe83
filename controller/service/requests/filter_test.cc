// Filters and orders of lists: what they mean, where they are wrong, and that nothing typed hurts.
#include "controller/service/requests/filter.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/requests/job_list.h"
#include "controller/service/requests/update_check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

using testing::HasSubstr;

v1::JobRecord RecordOf(const std::string& name, v1::Job::State state, int64_t priority,
                       int64_t created, const std::map<std::string, std::string>& labels = {}) {
  v1::JobRecord job;
  job.set_name("jobs/" + name);
  job.set_state(state);
  job.set_owner("users/ann");
  job.mutable_spec()->mutable_resources()->set_priority(priority);
  job.mutable_create_time()->set_seconds(created);
  job.mutable_spec()->mutable_labels()->insert(labels.begin(), labels.end());
  return job;
}

const std::vector<v1::JobRecord>& Records() {
  static const auto& records = *new std::vector<v1::JobRecord>{
      RecordOf("bert", v1::Job::RUNNING, 0, 1'000, {{"team", "nlp"}, {"app.k8s.io/name", "x"}}),
      RecordOf("gpt-a", v1::Job::QUEUED, 5, 3'000, {{"team", "nlp-core"}}),
      RecordOf("gpt-b", v1::Job::FAILED, -5, 2'000)};
  return records;
}

std::string Selected(const std::string& text) {
  const absl::StatusOr<JobFilter> filter = ParseFilter(text);
  if (!filter.ok()) return absl::StrCat("refused: ", std::string(filter.status().message()));
  std::vector<std::string> names;
  for (const v1::JobRecord& job : Records()) {
    if ((*filter)(job)) names.push_back(ShortName(job.name()));
  }
  return absl::StrJoin(names, " ");
}

TEST(Filter, ComparesFields) {
  EXPECT_EQ(Selected(""), "bert gpt-a gpt-b");
  EXPECT_EQ(Selected("state = RUNNING"), "bert");
  EXPECT_EQ(Selected("state != RUNNING"), "gpt-a gpt-b");
  EXPECT_EQ(Selected("name = gpt-*"), "gpt-a gpt-b");
  EXPECT_EQ(Selected("name=jobs/bert"), "bert");
  EXPECT_EQ(Selected("name : pt"), "gpt-a gpt-b");
  EXPECT_EQ(Selected("owner = \"users/ann\""), "bert gpt-a gpt-b");
  EXPECT_EQ(Selected("spec.project = default AND queue = default"), "bert gpt-a gpt-b");
  EXPECT_EQ(Selected("priority > 0"), "gpt-a");
  EXPECT_EQ(Selected("spec.resources.priority<=0"), "bert gpt-b");
  EXPECT_EQ(Selected("priority = -5"), "gpt-b");
  EXPECT_EQ(Selected("create_time >= 1970-01-01T00:33:20Z"), "gpt-a gpt-b");
}

TEST(Filter, SelectsByLabels) {
  EXPECT_EQ(Selected("spec.labels.team = nlp"), "bert");
  EXPECT_EQ(Selected("spec.labels.team = nlp*"), "bert gpt-a");
  EXPECT_EQ(Selected("spec.labels.team != nlp"), "gpt-a gpt-b");
  EXPECT_EQ(Selected("spec.labels.team:*"), "bert gpt-a");
  EXPECT_EQ(Selected("NOT spec.labels.team:*"), "gpt-b");
  EXPECT_EQ(Selected("spec.labels.app.k8s.io/name = x"), "bert");
}

TEST(Filter, OrBindsMoreTightlyThanAnd) {
  EXPECT_EQ(Selected("state = RUNNING OR state = QUEUED AND priority = 5"), "gpt-a");
  EXPECT_EQ(Selected("state = RUNNING OR (state = QUEUED AND priority = 5)"), "bert gpt-a");
  EXPECT_EQ(Selected("name = gpt-* state = FAILED"), "gpt-b");
  EXPECT_EQ(Selected("-(name = gpt-* OR name = x)"), "bert");
  EXPECT_EQ(Selected("-state = RUNNING"), "gpt-a gpt-b");
  EXPECT_EQ(Selected("NOT NOT name = bert"), "bert");
}

TEST(Filter, MistakesAreToldWithTheirColumns) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"stat = RUNNING", "column 1: there is no field stat"},
      {"state = RUNING", "column 9: RUNING is no state"},
      {"state < RUNNING", "column 7: state is a text"},
      {"state = RUNNING AND", "column 20: a comparison is missing"},
      {"state RUNNING", "column 7: a comparison of state is missing"},
      {"state =", "column 8: a value is missing after ="},
      {"(state = RUNNING", "column 1: the parenthesis is not closed"},
      {"state = RUNNING)", "column 16: ) is not expected here"},
      {"name = \"bert", "column 8: the quote is not closed"},
      {"priority = high", "column 12: high is no number"},
      {"create_time > yesterday", "column 15: yesterday is no time"},
      {"! name = bert", "column 1: ! stands alone"},
      {std::string(100, '(') + "name = x", "is nested too deeply"},
      {std::string(5000, 'x'), "at most 4096 bytes"}};
  for (const auto& [text, says] : cases) {
    EXPECT_THAT(Selected(text), HasSubstr("refused: filter: ")) << text;
    EXPECT_THAT(Selected(text), HasSubstr(says));
  }
}

TEST(Filter, AnythingTypedIsTakenOrRefused) {
  constexpr const char* kPieces[] = {"state", "name",    "priority", "spec.labels.team",
                                     "=",     "!=",      "<",        ">=",
                                     ":",     "RUNNING", "5",        "\"a b\"",
                                     "(",     ")",       "AND",      "OR",
                                     "NOT",   "-",       "\"",       "\\",
                                     " ",     "*",       "!",        "\xc3\xa9"};
  std::mt19937_64 random(7);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t piece = random() % 12; piece > 0; --piece) {
      absl::StrAppend(&text, kPieces[random() % std::size(kPieces)], random() % 3 == 0 ? "" : " ");
    }
    const absl::StatusOr<JobFilter> filter = ParseFilter(text);
    if (!filter.ok()) {
      EXPECT_EQ(ReasonOf(filter.status()), "INVALID_FIELD") << text;
      continue;
    }
    ++taken;
    for (const v1::JobRecord& job : Records()) (void)(*filter)(job);
  }
  EXPECT_GT(taken, 100);
}

std::string Ordered(const std::string& order_by) {
  const absl::StatusOr<JobOrder> order = ParseOrder(order_by);
  if (!order.ok()) return std::string(order.status().message());
  std::vector<v1::JobRecord> jobs = Records();
  std::sort(jobs.begin(), jobs.end(), *order);
  return absl::StrJoin(jobs, " ", [](std::string* out, const v1::JobRecord& job) {
    absl::StrAppend(out, ShortName(job.name()));
  });
}

TEST(Order, IsByFieldsInTheirDirections) {
  EXPECT_EQ(Ordered(""), "bert gpt-a gpt-b");
  EXPECT_EQ(Ordered("create_time desc"), "gpt-a gpt-b bert");
  EXPECT_EQ(Ordered("priority"), "gpt-b bert gpt-a");
  EXPECT_EQ(Ordered("step, name desc"), "gpt-b gpt-a bert");
  for (const char* bad : {"age", "name up", ",", "name,", "name desc desc"}) {
    EXPECT_THAT(Ordered(bad), HasSubstr("is no order such as")) << bad;
  }
}

v1::ListJobsResponse Page(v1::ListJobsRequest request, absl::Status* status = nullptr) {
  std::vector<const v1::JobRecord*> jobs;
  for (const v1::JobRecord& job : Records()) jobs.push_back(&job);
  v1::ListJobsResponse response;
  const auto list = JobList::Parse(request);
  absl::Status filled = list.status();
  if (list.ok()) {
    filled = list->Fill(
        jobs,
        [](const v1::JobRecord& record) {
          v1::Job job;
          job.set_name(record.name());
          *job.mutable_spec() = record.spec();
          job.mutable_spec()->mutable_model()->set_layers(7);
          job.add_placement();
          return job;
        },
        response);
  }
  if (status != nullptr) *status = filled;
  return response;
}

TEST(JobList, GoesOnBehindTheLastJobInEveryOrder) {
  for (const char* order : {"", "create_time desc", "priority"}) {
    v1::ListJobsRequest request;
    request.set_order_by(order);
    request.set_page_size(1);
    std::vector<std::string> names;
    do {
      const v1::ListJobsResponse page = Page(request);
      ASSERT_EQ(page.jobs_size(), 1);
      names.push_back(ShortName(page.jobs(0).name()));
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(absl::StrJoin(names, " "), Ordered(order));
  }
}

TEST(JobList, ATokenBelongsToItsFilterAndOrder) {
  v1::ListJobsRequest request;
  request.set_page_size(1);
  request.set_page_token(Page(request).next_page_token());
  request.set_filter("state = QUEUED");
  absl::Status status;
  Page(request, &status);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
}

TEST(JobList, BasicTellsWhatATableShows) {
  v1::ListJobsRequest request;
  request.set_filter("name = bert");
  const v1::Job basic = Page(request).jobs(0);
  EXPECT_FALSE(basic.spec().has_model());
  EXPECT_TRUE(basic.placement().empty());
  EXPECT_EQ(basic.spec().labels().at("team"), "nlp");
  request.set_view(v1::JOB_VIEW_FULL);
  const v1::Job full = Page(request).jobs(0);
  EXPECT_EQ(full.spec().model().layers(), 7);
  EXPECT_EQ(full.placement_size(), 1);
}

TEST(CheckUpdate, MeetsTheChecksOfTheFile) {
  v1::UpdateJobRequest request;
  request.mutable_job()->set_name("jobs/a");
  EXPECT_THAT(std::string(CheckUpdate(request).message()), HasSubstr("update_mask"));
  request.mutable_update_mask()->add_paths("spec.train.steps");
  EXPECT_THAT(std::string(CheckUpdate(request).message()), HasSubstr("train.steps"));
  request.mutable_job()->mutable_spec()->mutable_train()->set_steps(5);
  EXPECT_TRUE(CheckUpdate(request).ok()) << CheckUpdate(request);
  request.mutable_update_mask()->add_paths("spec.labels");
  (*request.mutable_job()->mutable_spec()->mutable_labels())["a b"] = "x";
  EXPECT_THAT(std::string(CheckUpdate(request).message()), HasSubstr("is no label's key"));
  request.mutable_update_mask()->add_paths("spec.model");
  EXPECT_THAT(std::string(CheckUpdate(request).message()),
              HasSubstr("spec.model cannot be changed"));
}

}  // namespace
}  // namespace strata::controller
