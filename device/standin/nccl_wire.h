// How ranks of NCCL's stand-in that are processes of one machine find each other and talk.
//
// A room is one communicator's, named by its id. Rank r listens on a Unix socket under the room's
// name and its number, in the abstract namespace: no file stands for it, and it is gone with its
// process. Ranks above connect to it, again and again until it listens. The kernel tells who is at
// the other end; other users are turned away.
#ifndef STRATA_DEVICE_STANDIN_NCCL_WIRE_H_
#define STRATA_DEVICE_STANDIN_NCCL_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace strata::standin {

// A thread moves the bytes. All is guarded by the runtime's mutex, which that thread holds when it
// calls.
class NcclWire {
 public:
  struct Frame {
    uint32_t kind = 0;
    uint32_t index = 0;
    uint64_t number = 0;
    std::vector<std::byte> bytes;
  };
  // Who enters a room is heard with what it was opened with.
  struct Ears {
    std::function<void(int from, Frame frame)> hear;
    std::function<void(int from)> gone;  // it ended, or closed the room
  };
  struct Room;

  // `act` is called whenever something was heard or sent, and again when it says: milliseconds.
  static constexpr int kAtOnce = 0, kSoon = 1, kWhenHeard = -1;
  explicit NcclWire(std::function<int()> act);
  ~NcclWire();  // the thread ends when it comes to look
  NcclWire(const NcclWire&) = delete;
  NcclWire& operator=(const NcclWire&) = delete;

  // `hello` is the first that every other rank hears. Null: somebody has this rank already.
  Room* Open(const std::string& name, int rank, int size, Frame hello, Ears ears);
  // To a rank that was heard.
  void Send(Room& room, int to, const Frame& frame);
  // What was sent is delivered; nothing is heard any more.
  void Close(Room& room);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the thread's, too
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_WIRE_H_
