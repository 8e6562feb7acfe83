// Somebody who listens to a stream of messages, as those who publish see it.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_SUBSCRIBER_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_SUBSCRIBER_H_

#include <memory>

#include "absl/status/status.h"

namespace strata::controller {

// Calls come from one thread at a time; none of them waits for the other side.
template <typename Message>
class Subscriber {
 public:
  virtual ~Subscriber() = default;
  // One more message. False: it has ended (the client is gone, or was so slow that its buffer is
  // full); the publisher forgets it.
  virtual bool Push(std::shared_ptr<const Message> message) = 0;
  virtual bool alive() const = 0;
  // Whether everything pushed so far has been sent.
  virtual bool idle() const = 0;
  // Nothing more will come: it ends with this status after what was pushed.
  virtual void End(const absl::Status& status) = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_SUBSCRIBER_H_
