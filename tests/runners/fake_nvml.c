/* FAKE libnvidia-ml.so.1: two invented H200s, because no test machine has one. The second does not
 * support ECC, as some cards do not, is capped and carries one process: the caller's own, and that of a
 * stranger once the file FAKE_STRANGER exists. It is gone as long as FAKE_GONE does. Compiled by the test. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, IS_LOST = 15 };
#define GPU(handle) ((int)(long)(handle) - 1)
static int there(const char *name) { return getenv(name) && !access(getenv(name), F_OK); }
#define LOST(handle) (GPU(handle) && there("FAKE_GONE"))

int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int result) { return "fake error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { strcpy(text, "590.44.01"); return OK; }
int nvmlSystemGetCudaDriverVersion(int *number) { *number = 13010; return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  *handle = (void *)(long)(index + 1);
  return OK;
}
int nvmlDeviceGetName(void *h, char *text, unsigned size) { strcpy(text, "FAKE H200"); return OK; }
int nvmlDeviceGetUUID(void *h, char *text, unsigned size) {
  strcpy(text, GPU(h) ? "GPU-bbbb" : "GPU-aaaa");
  return OK;
}
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *memory) {
  if (LOST(h)) return IS_LOST;
  memory[0] = 150000000000ull;
  memory[2] = GPU(h) ? 20000000000ull : 0;
  memory[1] = memory[0] - memory[2];
  return OK;
}
int nvmlDeviceGetPciInfo_v3(void *h, void *info) {
  memset(info, 0, 68);
  strcpy((char *)info + 36, "00000000:FA:CE.0"); /* busId, after its old form and five numbers */
  return OK;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = *later = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, void *list) {
  if (!GPU(h)) { *count = 0; return OK; }
  if (LOST(h)) return IS_LOST;
  unsigned running = there("FAKE_STRANGER") ? 2 : 1;
  if (!list) { *count = running; return INSUFFICIENT_SIZE; }
  memset(list, 0, 24 * running);
  ((unsigned *)list)[0] = getpid();
  if (running == 2) ((unsigned *)list)[6] = 4194305; /* beyond the largest number of a process */
  *count = running;
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
  *major = 9; *minor = 0;
  return OK;
}
int nvmlDeviceGetPowerManagementLimit(void *h, unsigned *mw) { *mw = GPU(h) ? 500000 : 700000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *mw) { *mw = 700000; return OK; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) {
  if (LOST(h)) return IS_LOST;
  *mw = GPU(h) ? 90500 : 512300;
  return OK;
}
int nvmlDeviceGetClockInfo(void *h, int type, unsigned *mhz) {
  if (LOST(h)) return IS_LOST;
  *mhz = type == 1 ? 345 : 2619;
  return OK;
}
/* Too hot in software (0x20) and at its power limit (0x4). */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *bits) {
  if (LOST(h)) return IS_LOST;
  *bits = GPU(h) ? 0 : 0x24;
  return OK;
}
int nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 1 ? 1980 : 3201; return OK; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *c) {
  if (LOST(h)) return IS_LOST;
  *c = 31;
  return OK;
}
int nvmlDeviceGetEccMode(void *h, int *now, int *later) {
  *now = *later = 1;
  return GPU(h) ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetPersistenceMode(void *h, int *mode) { *mode = 1; return OK; }
