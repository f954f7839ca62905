/* Has each rank use so much cpu time, and one of them so much memory: burn SECONDS [RANK MEGABYTES]. Each tells where it was and what
   getrusage says that it used. Ranks do not talk to each other: see where.c. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double used(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	int rank, size;
	char host[64], line[4096], cgroups[8192] = "";
	volatile double x = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	gethostname(host, sizeof host);
	FILE *f = fopen("/proc/self/cgroup", "r");
	while (f && fgets(line, sizeof line, f) && strlen(cgroups) + strlen(line) < sizeof cgroups) {
		line[strcspn(line, "\n")] = ';';
		strcat(cgroups, line);
	}
	if (argc > 3 && rank == atoi(argv[2]))
		for (int i = 0; i < atoi(argv[3]); i++)
			memset(malloc(1 << 20), 1, 1 << 20);
	while (argc > 1 && used() < atof(argv[1]))
		for (int i = 0; i < 1000000; i++)
			x = x * 1.000001;
	MPI_Finalize();
	const char *job = getenv("PBS_JOBID");
	printf("rank=%d size=%d host=%s job=%s cput=%f cgroups=%s\n", rank, size, host, job ? job : "-", used(), cgroups);
	return 0;
}
