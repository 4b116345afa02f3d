/*
 * A plugin for CRIU that does what its own for NVIDIA's GPUs does, on the stand-in: before the processes are frozen it has each of them
 * locked by a program, HOOK, and gives up if that fails. CRIU's interface for plugins: criu/include/criu-plugin.h of its sources.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOOK_PAUSE_DEVICES 10
/* As few as there must be: versions of CRIU differ in how many they know. */
#define HOOKS		   11
#define VERSION		   (2 << 8)

static int begin(int stage)
{
	(void)stage;
	return 0;
}

static void end(int stage, int result)
{
	(void)stage;
	(void)result;
}

static int pause_devices(int pid)
{
	char number[16];
	int status;
	pid_t child;

	snprintf(number, sizeof(number), "%d", pid);
	child = fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		execl(HOOK, HOOK, number, (char *)NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

struct {
	const char *name;
	int (*init)(int stage);
	void (*exit)(int stage, int result);
	unsigned int version;
	unsigned int max_hooks;
	void *hooks[HOOKS];
} CR_PLUGIN_DESC = {
	.name = "lock_plugin",
	.init = begin,
	.exit = end,
	.version = VERSION,
	.max_hooks = HOOKS,
	.hooks = { [HOOK_PAUSE_DEVICES] = (void *)pause_devices },
};
