// Stands in for strata-worker in tests: does what the request's prompt says.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "client/frame_pipe.h"
#include "proto/strata/v1/standalone.pb.h"

namespace {

using strata::v1::Finished;
using strata::v1::StandaloneEvent;

void Say(const std::string& text) {
  StandaloneEvent event;
  event.mutable_notice()->set_text(text);
  strata::client::WriteFrame(STDOUT_FILENO, event).IgnoreError();
}

void Finish(Finished::Outcome outcome, int code) {
  StandaloneEvent event;
  event.mutable_finished()->set_outcome(outcome);
  event.mutable_finished()->set_exit_code(code);
  event.mutable_finished()->set_message("as asked");
  strata::client::WriteFrame(STDOUT_FILENO, event).IgnoreError();
}

// Blocks both signals, says "ready", and says which ones come.
int ObeySignals(bool finish_at_first) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGTERM);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  Say("ready");
  for (int count = 1;; ++count) {
    int number = 0;
    sigwait(&watched, &number);
    Say(number == SIGINT ? "got SIGINT" : "got SIGTERM");
    if (!finish_at_first && count < 2) continue;
    Finish(Finished::INTERRUPTED, 130);
    return 130;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || std::string(argv[1]) != "--standalone") return 99;
  strata::protocol::FrameDecoder frames;
  strata::v1::StandaloneRequest request;
  while (true) {
    const auto whole = frames.Next(&request);
    if (!whole.ok()) return 98;
    if (*whole) break;
    const auto more = strata::client::ReadFrames(STDIN_FILENO, frames);
    if (!more.ok() || !*more) return 97;
  }
  const std::string& task = request.prompt();
  if (task == "many events") {
    for (int i = 0; i < 1000; ++i) Say(std::to_string(i));
    Finish(Finished::SUCCEEDED, 0);
  } else if (task == "events without end") {
    while (true) Say("one more");
  } else if (task == "until the client is gone") {
    char byte = 0;
    Say("ready");
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    return 0;
  } else if (task == "finish and linger") {
    Finish(Finished::SUCCEEDED, 0);
    pause();
  } else if (task == "obey signals") {
    return ObeySignals(false);
  } else if (task == "ignore signals") {
    signal(SIGINT, SIG_IGN);
    Say("ready");
    while (true) pause();
  } else if (task == "garbage") {
    std::fputs("this is no frame at all", stdout);
    std::fflush(stdout);
    pause();
  } else if (task == "exit 7") {
    return 7;
  } else if (task == "crash") {
    kill(getpid(), SIGKILL);
  }
  return 0;
}
