/* FAKE libnvidia-ml.so.1: two invented H200s, because no test machine has one. The second does not
 * support ECC, as some cards do not, is capped and carries one process. Compiled by the test. */
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
#define GPU(handle) ((int)(long)(handle) - 1)

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
  memory[0] = 150000000000ull;
  memory[2] = GPU(h) ? 20000000000ull : 0;
  memory[1] = memory[0] - memory[2];
  return OK;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = *later = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, void *list) {
  if (!GPU(h)) { *count = 0; return OK; }
  if (!list) { *count = 1; return INSUFFICIENT_SIZE; }
  memset(list, 0, 24);
  *count = 1;
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) {
  *major = 9; *minor = 0;
  return OK;
}
int nvmlDeviceGetPowerManagementLimit(void *h, unsigned *mw) { *mw = GPU(h) ? 500000 : 700000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *mw) { *mw = 700000; return OK; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = GPU(h) ? 90500 : 512300; return OK; }
int nvmlDeviceGetClockInfo(void *h, int type, unsigned *mhz) { *mhz = 345; return OK; }
int nvmlDeviceGetMaxClockInfo(void *h, int type, unsigned *mhz) { *mhz = type == 1 ? 1980 : 3201; return OK; }
int nvmlDeviceGetTemperature(void *h, int sensor, unsigned *c) { *c = 31; return OK; }
int nvmlDeviceGetEccMode(void *h, int *now, int *later) {
  *now = *later = 1;
  return GPU(h) ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetPersistenceMode(void *h, int *mode) { *mode = 1; return OK; }
