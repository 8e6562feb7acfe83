// Work that hangs, beside work that does not.
#include "controller/service/files/file_pool.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

FilePool::Options Brief() {
  FilePool::Options options;
  options.most_threads = 2;
  options.most_waiting = 3;
  options.deadline_seconds = 0.2;
  return options;
}

TEST(FilePool, TasksOfOneKeyRunInOrder) {
  FilePool pool({});
  std::vector<int> order;
  Gate done;
  for (int i = 0; i < 100; ++i) {
    const FilePool::Task task = {[&, i] {
                                   order.push_back(i);
                                   if (i == 99) done.Open();
                                 },
                                 nullptr};
    ASSERT_TRUE(pool.Submit("a", task).ok());
  }
  done.Wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(FilePool, KeyThatHangsIsGivenUpAndDelaysNoOther) {
  const auto gate = std::make_shared<Gate>();
  FilePool pool(Brief());
  std::promise<absl::Status> running;
  std::promise<absl::Status> waiting;
  ASSERT_TRUE(pool.Submit("hangs", {[gate] { gate->Wait(); },
                                    [&](const absl::Status& why) { running.set_value(why); }})
                  .ok());
  ASSERT_TRUE(
      pool.Submit("hangs", {[] {}, [&](const absl::Status& why) { waiting.set_value(why); }}).ok());
  Gate other;
  ASSERT_TRUE(pool.Submit("other", {[&] { other.Open(); }, nullptr}).ok());
  other.Wait();
  EXPECT_EQ(running.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(waiting.get_future().get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pool.Submit("hangs", {[] {}, nullptr}).code(), absl::StatusCode::kUnavailable);
  gate->Open();  // it is taken again once it answers
  while (!pool.Submit("hangs", {[] {}, nullptr}).ok()) std::this_thread::yield();
}

TEST(FilePool, TooManyHangsAndTooLongQueuesAreRefused) {
  const auto gate = std::make_shared<Gate>();
  FilePool pool(Brief());
  std::promise<absl::Status> given_up[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool.Submit(absl::StrCat(i),
                            {[gate] { gate->Wait(); },
                             [&, i](const absl::Status& why) { given_up[i].set_value(why); }})
                    .ok());
  }
  absl::Status last;
  for (int i = 0; i < 5 && last.ok(); ++i) last = pool.Submit("0", {[] {}, nullptr});
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  for (auto& promise : given_up) static_cast<void>(promise.get_future().get());
  EXPECT_EQ(pool.Submit("other", {[] {}, nullptr}).code(), absl::StatusCode::kResourceExhausted);
  gate->Open();
}

}  // namespace
}  // namespace strata::controller
