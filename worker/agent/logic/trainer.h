// One trainer process, as those see it who decide about it. The machine has real ones, the
// simulation others.
#ifndef STRATA_WORKER_AGENT_LOGIC_TRAINER_H_
#define STRATA_WORKER_AGENT_LOGIC_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/strata/v1/trainer.pb.h"
#include "worker/shared/progress_view.h"

namespace strata::worker {

// Is told what a trainer says, and of its end. `place`: see Trainer::SetListener. Destroys no
// trainer meanwhile.
class TrainerListener {
 public:
  virtual ~TrainerListener() = default;

  virtual void OnEvent(int place, const v1::TrainerEvent& event) = 0;
  // Its socket has ended. `problem`: it said what is no event; else empty.
  virtual void OnDisconnect(int place, const std::string& problem) = 0;
  // The process is gone (reaped), and has nothing more to say.
  virtual void OnGone(int place) = 0;
};

// Destruction kills and reaps it, unless it was let go. Used by one thread.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // Who hears it (borrowed), and as which one of its trainers.
  void SetListener(TrainerListener* listener, int place) {
    listener_ = listener;
    place_ = place;
  }

  virtual int64_t pid() const = 0;
  virtual uint64_t start_time() const = 0;  // of the process; see HeldEpochRecord

  // There is a socket, and more may come from it.
  virtual bool connected() const = 0;
  // One that no longer listens is noticed by its end, not here.
  virtual void Send(const v1::TrainerCommand& command) = 0;
  // Forgets the socket: it will come back on another one.
  virtual void Detach() = 0;
  // It sees the end of its socket; what it still says can be heard.
  virtual void Hang() = 0;
  // At once, also when it is stopped.
  virtual void Kill() = 0;
  virtual bool killed() const = 0;  // by Kill
  // From now on its life is not this process's business.
  virtual void LetGo() = 0;

  virtual bool reaped() const = 0;
  // After it was reaped: "exited with code 1", "was killed by signal 9 (Killed)".
  virtual std::string DescribeEnd() const = 0;
  virtual bool died_of_signal() const = 0;
  // The last word of a process that an earlier agent started, as its progress file holds it;
  // nothing when it was killed.
  virtual std::optional<v1::Ended> Outcome() = 0;

  virtual bool IsStopped() const = 0;                 // by a signal or a debugger
  virtual bool IsInUninterruptibleSleep() const = 0;  // a thread of it, in process state D
  // Null while nothing is known.
  virtual const ProgressView* progress() = 0;
  // There is something that this build cannot read: the trainer may be of another build.
  virtual bool progress_unknown() const = 0;

  // Where its threads stand, for people: a few lines, or one in parentheses that says why it cannot
  // be told. Takes moments, a fraction of a second at most.
  virtual std::string Stack() const = 0;

 protected:
  TrainerListener* listener() const { return listener_; }
  int place() const { return place_; }

 private:
  TrainerListener* listener_ = nullptr;
  int place_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_TRAINER_H_
