// What the user sees of a job on the cluster: its states, then its progress as of a run in this
// terminal, and its end.
#ifndef STRATA_CLIENT_JOB_PRESENTER_H_
#define STRATA_CLIENT_JOB_PRESENTER_H_

#include <string>

#include "client/run_presenter.h"
#include "client/terminal/terminal.h"
#include "common/clock.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::client {

class JobPresenter {
 public:
  JobPresenter(const v1::Job& job, Terminal& terminal, const common::Clock& clock);

  void OnProgress(const v1::JobProgress& progress);
  // Often: shows that waiting goes on.
  void OnTick();
  void OnLost();
  void OnBack();
  // Of its end: the curve, the outcome, what to do next. Returns the outcome as an exit code.
  int Conclude(const v1::Job& job);

 private:
  void OnJob(const v1::Job& job);
  void ShowStart(const v1::Job& job);

  Terminal& terminal_;
  const common::Clock& clock_;
  std::string name_;
  RunPresenter run_;
  v1::Job::State state_ = v1::Job::STATE_UNSPECIFIED;
  int64_t epoch_ = -1;
  std::string reason_;
  double since_;  // of the present state, or of the controller's silence
  double told_;
  bool lost_ = false;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_JOB_PRESENTER_H_
