/* Has each rank send a megabyte to the next, and tells of each whether what came is what the one before sent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	enum { words = 1 << 18 };
	int rank, size, bad = 0;
	int *sent = malloc(words * sizeof *sent), *got = calloc(words, sizeof *got);
	char host[64];

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	gethostname(host, sizeof host);
	int from = (rank + size - 1) % size;
	for (int i = 0; i < words; i++)
		sent[i] = rank * words + i;
	MPI_Sendrecv(sent, words, MPI_INT, (rank + 1) % size, 0, got, words, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < words; i++)
		bad += got[i] != from * words + i;
	printf("rank=%d host=%s from=%d bad=%d\n", rank, host, from, bad);
	fflush(stdout);
	MPI_Finalize();
	return bad != 0;
}
