// What the tests of those share who listen to the core's effects.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_HUB_TEST_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_HUB_TEST_H_

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/logic/core.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {

// A core whose effects go to one listener.
class HubTest : public testing::Test {
 protected:
  HubTest() {
    static_cast<void>(core_.Load({}, 0).ok());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~HubTest() override { std::filesystem::remove_all(folder_); }

  void Create(Reactor::Listener& listener, const std::string& name) {
    Effects effects;
    v1::CreateJobRequest request = LogicRequest(name);
    request.mutable_job()->set_directory(absl::StrCat(folder_, "/", name));
    ASSERT_TRUE(core_.CreateJob(request, effects).ok());
    listener.OnEffects(core_, effects);
  }
  void Cancel(Reactor::Listener& listener, const std::string& name) {
    Effects effects;
    v1::CancelJobRequest request;
    request.set_name("jobs/" + name);
    ASSERT_TRUE(core_.CancelJob(request, effects).ok());
    listener.OnEffects(core_, effects);
  }
  static Effects Step(const std::string& name, int64_t epoch, int64_t step) {
    Effects effects;
    effects.progress.push_back({"jobs/" + name, {}});
    effects.progress[0].progress.mutable_step()->set_epoch(epoch);
    effects.progress[0].progress.mutable_step()->set_step(step);
    return effects;
  }

  const std::string folder_ = absl::StrCat(
      testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name());
  common::ManualClock clock_;
  Core core_{&clock_};
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_HUB_TEST_H_
