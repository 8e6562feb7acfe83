// What the user sees of a training run: its start, its progress, its checkpoints, its loss curve
// and its end.
#ifndef STRATA_CLIENT_RUN_PRESENTER_H_
#define STRATA_CLIENT_RUN_PRESENTER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/terminal/progress.h"
#include "client/terminal/terminal.h"
#include "common/clock.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::client {

class RunPresenter {
 public:
  enum class Place { kTerminal, kCluster };  // who runs it: the end says how to go on

  // `steps`: the job's last step.
  RunPresenter(std::string name, int64_t steps, std::string job_directory, Place place,
               Terminal& terminal, const common::Clock& clock);
  // Of a run in this terminal; says that it starts.
  RunPresenter(const strata::v1::JobSpec& job, const std::string& job_directory, Terminal& terminal,
               const common::Clock& clock);

  void OnEvent(const strata::v1::StandaloneEvent& event);
  void OnIdle();
  void OnSignal();
  bool has_steps() const { return !losses_.empty(); }
  void set_checkpoint(std::string path) { checkpoint_ = std::move(path); }
  // How long it all took, where that is not the time since this was made.
  void set_took(double seconds) { took_ = seconds; }
  // The run's outcome for programs: one JSON object and a newline.
  std::string Summary(const strata::v1::Finished& finished) const;
  // The curve, the outcome and what to do next.
  void Conclude(const strata::v1::Finished& finished);

 private:
  void OnStarted(const strata::v1::Started& started);
  void OnStep(const strata::v1::StepRecord& record);
  void DrawLosses();
  // Begins with a comma; empty when every step was applied.
  std::string UnappliedSteps() const;

  Terminal& terminal_;
  const common::Clock& clock_;
  std::string name_;
  int64_t steps_;
  std::string job_directory_;
  Place place_;
  Progress progress_;
  double began_;
  std::optional<double> took_;
  bool started_ = false;
  int signals_ = 0;
  int64_t first_step_ = 0;
  int64_t last_step_ = 0;
  std::vector<double> losses_;      // of first_step_ and those after it
  std::vector<int64_t> unapplied_;  // those of these steps whose loss or norm was not finite
  std::optional<double> validation_loss_;
  std::string checkpoint_;  // the newest one
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_RUN_PRESENTER_H_
