// A library to be preloaded: file operations that take as long as a test says, in all programs of a
// cluster. The file that STRATA_SLOW_STORAGE names holds the rules, which may change at any time:
//
//   OPERATION SUBSTRING SECONDS [PROGRAM]
//
// with open, pread, write or sync, a part of the file's path, and the program that is meant, if it
// is one alone. Without the file nothing is delayed. Each delay is told, before it begins, by a
// line in the file of that name and ".told".
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
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

// The real thing: this library's own are called by it.
int Open(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600));
}

// Of the rule for the operation on the file of that path. The rules are read whole, as they are
// replaced by renaming.
double SecondsOf(const char* rules, const char* operation, const char* path) {
  const int descriptor = Open(rules, O_RDONLY);
  if (descriptor < 0) return 0;
  char text[kPathBytes] = {};
  const long size = syscall(SYS_read, descriptor, text, sizeof(text) - 1);
  close(descriptor);
  if (size <= 0) return 0;
  char* rest = nullptr;
  for (char* line = strtok_r(text, "\n", &rest); line != nullptr;
       line = strtok_r(nullptr, "\n", &rest)) {
    char name[16] = {}, part[256] = {}, program[64] = {};
    double seconds = 0;
    const int words = std::sscanf(line, "%15s %255s %lf %63s", name, part, &seconds, program);
    if (words >= 3 && std::strcmp(name, operation) == 0 && std::strstr(path, part) != nullptr &&
        (words == 3 || std::strcmp(program, program_invocation_short_name) == 0)) {
      return seconds;
    }
  }
  return 0;
}

void Tell(const char* rules, const char* operation, const char* path) {
  char name[kPathBytes], line[2 * kPathBytes];
  std::snprintf(name, sizeof(name), "%s.told", rules);
  const int told = Open(name, O_WRONLY | O_CREAT | O_APPEND);
  if (told < 0) return;
  const int size = std::snprintf(line, sizeof(line), "%s %s\n", operation, path);
  static_cast<void>(syscall(SYS_write, told, line, size));
  close(told);
}

void DelayPath(const char* operation, const char* path) {
  static const char* const rules = std::getenv("STRATA_SLOW_STORAGE");
  const int before = errno;
  const double seconds = rules == nullptr ? 0 : SecondsOf(rules, operation, path);
  if (seconds > 0) {
    Tell(rules, operation, path);
    poll(nullptr, 0, static_cast<int>(1e3 * seconds));
  }
  errno = before;
}

void Delay(const char* operation, int file) {
  char link[64], path[kPathBytes] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof(path) - 1) > 0) DelayPath(operation, path);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  using Function = int (*)(const char*, int, mode_t);
  static const Function next = Next<Function>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  DelayPath("open", path);
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  using Function = int (*)(const char*, int, mode_t);
  static const Function next = Next<Function>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  DelayPath("open", path);
  return next(path, flags, mode);
}

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
