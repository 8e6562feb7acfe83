// A library to be preloaded: file operations that take as long as a test says, in all programs of a
// cluster. The file that STRATA_SLOW_STORAGE names holds the rules, which may change at any time:
//
//   OPERATION SUBSTRING SECONDS
//
// with pread, write or sync, and a part of the file's path. Without the file nothing is delayed.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kPathBytes = 4096;

// The real one, of the library behind this one.
template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using ReadFunction = ssize_t (*)(int, void*, size_t);

// By system calls and the real functions only: it is called from within the others. Reads the rules
// whole, as they are replaced by renaming.
double SecondsOf(const char* operation, int file) {
  static const char* const rules = std::getenv("STRATA_SLOW_STORAGE");
  if (rules == nullptr) return 0;
  const int descriptor = open(rules, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  char text[kPathBytes] = {};
  static const ReadFunction next_read = Next<ReadFunction>("read");
  const ssize_t size = next_read(descriptor, text, sizeof(text) - 1);
  close(descriptor);
  if (size <= 0) return 0;
  char link[64], path[kPathBytes] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof(path) - 1) <= 0) return 0;
  char* rest = nullptr;
  for (char* line = strtok_r(text, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    char name[16] = {}, part[256] = {};
    double seconds = 0;
    const bool rule = std::sscanf(line, "%15s %255s %lf", name, part, &seconds) == 3;
    if (rule && std::strcmp(name, operation) == 0 && std::strstr(path, part) != nullptr) {
      return seconds;
    }
  }
  return 0;
}

void Delay(const char* operation, int file) {
  const double seconds = SecondsOf(operation, file);
  if (seconds > 0) poll(nullptr, 0, static_cast<int>(1e3 * seconds));
}

}  // namespace

extern "C" {

ssize_t pread(int file, void* bytes, size_t size, off_t offset) {
  using Function = ssize_t (*)(int, void*, size_t, off_t);
  static const Function next = Next<Function>("pread");
  Delay("pread", file);
  return next(file, bytes, size, offset);
}

ssize_t pread64(int file, void* bytes, size_t size, off64_t offset) {
  using Function = ssize_t (*)(int, void*, size_t, off64_t);
  static const Function next = Next<Function>("pread64");
  Delay("pread", file);
  return next(file, bytes, size, offset);
}

ssize_t write(int file, const void* bytes, size_t size) {
  using Function = ssize_t (*)(int, const void*, size_t);
  static const Function next = Next<Function>("write");
  Delay("write", file);
  return next(file, bytes, size);
}

int fsync(int file) {
  using Function = int (*)(int);
  static const Function next = Next<Function>("fsync");
  Delay("sync", file);
  return next(file);
}

int fdatasync(int file) {
  using Function = int (*)(int);
  static const Function next = Next<Function>("fdatasync");
  Delay("sync", file);
  return next(file);
}

}  // extern "C"
