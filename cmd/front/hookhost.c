// The program that is installed as hookhost: it does the plain case of `hookhost attach` itself, also as pbs_attach, and becomes the full
// program, which is written in Go, for all else.
//
// A launcher starts each rank of a job through an attach, and the start of a Go program takes longer than all the rest of one. What is not
// plain is left to the full program, which begins anew and words all errors: another option, no daemon, an answer that is not understood,
// a command that cannot be run. To attach twice does no harm. A refusal is said here, so that the daemon counts it once.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef LIBEXECDIR // scripts/front says
#define LIBEXECDIR "/usr/libexec/hookhost"
#endif
#define SOCKET "/run/hookhost/hookhost.sock"
#define TYPE "application/x-hookhost-attached" // internal/api/words.go
#define SILENCE 5 // seconds to the daemon's first sign of life, as in internal/api/client.go

// What is to be done: take the process pid in; or this one, and become the command.
struct call {
	const char *name; // how messages begin
	const char *socket;
	const char *job; // "": the only one of the process's user
	long pid;        // 0: this process
	char **command;
};

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

// number reads a number from 1 to most, written as nobody would argue about; 0 for all else.
static long number(const char *text, long most)
{
	long n = 0;
	if (*text == '0')
		return 0;
	for (; *text >= '0' && *text <= '9' && n <= most; text++)
		n = n * 10 + (*text - '0');
	return *text == 0 && n <= most ? n : 0;
}

// is_job tells whether text is a job's id, as hostapi.CheckJobID does: 12, 12.server, 12[3].server.
static bool is_job(const char *text)
{
	static const char digits[] = "0123456789";
	static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._"; // the last three not at first
	size_t n = strspn(text, digits);
	if (n == 0 || strlen(text) > 220)
		return false;
	text += n;
	if (*text == '[') {
		text += 1 + strspn(text + 1, digits);
		if (*text++ != ']')
			return false;
	}
	if (*text == 0)
		return true;
	n = strspn(text + 1, letters);
	return *text == '.' && n > 0 && text[1 + n] == 0 && !strchr("-._", text[1]);
}

static bool set(struct call *c, const char *option, const char *value)
{
	if (strcmp(option, "-j") == 0)
		return is_job(c->job = value);
	if (strcmp(option, "-m") == 0)
		return number(value, 65535) > 0;
	if (strcmp(option, "-p") == 0)
		return (c->pid = number(value, 1 << 30)) > 1;
	if (strcmp(option, "--socket") == 0)
		return *(c->socket = value) != 0;
	return false;
}

// parse reads the plain forms: -j, -m, -p and --socket as words of their own, then -p's process or a command. It returns false for all
// else, right or wrong.
static bool parse(struct call *c, int argc, char **argv)
{
	const char *named = getenv("HOOKHOST_SOCKET");
	*c = (struct call){.socket = named && *named ? named : SOCKET, .job = ""};
	if (argc > 1 && strcmp(base(argv[0]), "pbs_attach") == 0) {
		c->name = "pbs_attach";
		argv += 1;
	} else if (argc > 2 && strcmp(base(argv[0]), "hookhost") == 0 && strcmp(argv[1], "attach") == 0) {
		c->name = "hookhost: attach";
		argv += 2;
	} else {
		return false;
	}
	for (; *argv && **argv == '-'; argv += 2) {
		if (strcmp(*argv, "--") == 0) {
			argv++;
			break;
		}
		if (!argv[1] || !set(c, argv[0], argv[1]))
			return false;
	}
	c->command = argv;
	bool command = *argv && **argv;
	// A path that begins where the caller is means something else after a change of directory.
	return (command || !*argv) && command == (c->pid == 0) && c->socket[0] == '/' &&
	       strlen(c->socket) < sizeof(((struct sockaddr_un *)0)->sun_path);
}

// within bounds what connect and send, or read, may take on fd; 0 seconds is no bound (socket(7)).
static bool within(int fd, int option, time_t seconds)
{
	struct timeval limit = {.tv_sec = seconds};
	return setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit) == 0;
}

static bool send_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t n = send(fd, text, length, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			text += n;
			length -= (size_t)n;
		}
	}
	return true;
}

// ask has the daemon's answer in text, ended by a NUL byte, and returns its length; -1 where it does
// not answer, or too much. A daemon that lives begins at once, by 100 Continue, and then is waited
// for. The kernel takes calls for one that is stopped as well.
static ssize_t ask(const struct call *c, char *text, size_t size)
{
	char body[300], request[600];
	int length = snprintf(body, sizeof body, "{\"job\":\"%s\",\"pid\":%ld}", c->job, c->pid ? c->pid : (long)getpid());
	length = snprintf(request, sizeof request,
		"POST /v1/attach HTTP/1.1\r\nHost: hookhost\r\nHookhost-Api: 1\r\nAccept: " TYPE
		"\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", length, body);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strcpy(address.sun_path, c->socket); // parse has seen that it fits
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t got = 0;
	ssize_t n = -1;
	if (fd >= 0 && within(fd, SO_SNDTIMEO, SILENCE) && within(fd, SO_RCVTIMEO, SILENCE) &&
	    connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && send_all(fd, request, (size_t)length)) {
		while ((n = read(fd, text + got, size - 1 - got)) != 0) {
			if (n < 0 && errno != EINTR)
				break;
			if (n > 0 && got == 0 && !within(fd, SO_RCVTIMEO, 0))
				break;
			if (n > 0)
				got += (size_t)n;
		}
	}
	if (fd >= 0)
		close(fd);
	text[got] = 0;
	return n == 0 && got < size - 1 ? (ssize_t)got : -1;
}

// body returns what is behind the head of an answer of our type, and how long it is; NULL when it is not whole, or another.
static char *body(char *text, size_t length, size_t *left)
{
	char *end = memmem(text, length, "\r\n\r\n", 4);
	if (strncmp(text, "HTTP/1.1 100 ", 13) == 0 && end) { // the sign of life
		length -= (size_t)(end + 4 - text);
		text = end + 4;
		end = memmem(text, length, "\r\n\r\n", 4);
	}
	if (strncmp(text, "HTTP/1.1 ", 9) != 0 || !end)
		return NULL;
	end[2] = 0;
	const char *told = strstr(text, "\r\nContent-Length: ");
	*left = (size_t)(text + length - (end + 4));
	if (!strstr(text, "\r\nContent-Type: " TYPE "\r\n") || !told || strtoul(told + 18, NULL, 10) != *left)
		return NULL;
	return end + 4;
}

// word returns the next word of an answer, which a NUL byte ends; NULL when there is none.
static char *word(char **text, size_t *left)
{
	char *start = *text, *end = memchr(start, 0, *left);
	if (!end)
		return NULL;
	*left -= (size_t)(end + 1 - start);
	*text = end + 1;
	return start;
}

// at returns where env has the variable, or where env ends.
static char **at(char **env, const char *name)
{
	size_t n = strlen(name);
	while (*env && !(strncmp(*env, name, n) == 0 && (*env)[n] == '='))
		env++;
	return env;
}

// drop takes a variable out of env, each time that it is there.
static void drop(char **env, const char *name)
{
	while (*(env = at(env, name)))
		for (char **place = env; *place; place++)
			place[0] = place[1];
}

// put sets a variable in env, which has room for it.
static bool put(char **env, const char *name, const char *value)
{
	char **place = at(env, name), *text;
	if (!*name || strchr(name, '=')) // setenv(3) does not take it
		return true;
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return false;
	if (*place)
		drop(place + 1, name); // some programs look at the first, others at the last
	else
		place[1] = NULL;
	*place = text;
	return true;
}

// prints tells whether a terminal shows the text and obeys nothing in it. A process's name may be
// in it.
static bool prints(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

// finish does what the daemon answers, and returns where that is not understood or cannot be done.
static void finish(const struct call *c, char *text, size_t left)
{
	size_t count = 0, words = 0;
	while (environ && environ[count])
		count++;
	for (size_t i = 0; i < left; i++)
		words += text[i] == 0;
	char **env = calloc(count + words + 2, sizeof *env); // each variable takes three words
	const char *verb = word(&text, &left);
	if (!env || !verb || strcmp(verb, "hookhost/1") != 0)
		return;
	if (count > 0)
		memcpy(env, environ, count * sizeof *env);
	if (!put(env, "MPICH_PROCESS_GROUP", "no")) // MPICH 1 starts its processes in a group of their own otherwise, as pbs_attach knows
		return;
	while ((verb = word(&text, &left)) && strcmp(verb, "end") != 0) {
		const char *name = word(&text, &left);
		const char *value = name && strcmp(verb, "unset") != 0 ? word(&text, &left) : NULL;
		if (value && strcmp(verb, "refused") == 0) {
			if (!prints(name) || !prints(value))
				return; // the full program escapes what it says
			fprintf(stderr, "%s: tm_attach: %s: %s\n", c->name, name, value);
			exit(1);
		}
		if (value && strcmp(verb, "set") == 0) {
			if (!put(env, name, value))
				return;
		} else if (name && strcmp(verb, "unset") == 0) {
			drop(env, name);
		} else {
			return;
		}
	}
	if (!verb || left != 0)
		return;
	if (c->pid)
		exit(0);
	execvpe(c->command[0], c->command, env); // by the PATH of this process, not of env
}

// replace is execv(3) of another program than this one, which would go on for ever.
static void replace(const char *path, char **argv)
{
	struct stat own, other;
	if (stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino)
		errno = ELOOP;
	else
		execv(path, argv);
}

// become is the full program: below this one, as it was built, or in libexec, as it was installed, also for a copy of this one elsewhere. It
// returns when there is none.
static void become(char **argv)
{
	static const char *const places[] = {"full/hookhost", "../libexec/hookhost/full/hookhost"}; // cmd/hookhost/node.go
	char path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	if (n < 0 || n == PATH_MAX) // without /proc
		n = 0;
	while (n > 0 && path[n - 1] != '/')
		n--;
	for (size_t i = 0; n > 0 && i < sizeof places / sizeof *places; i++) {
		strcpy(path + n, places[i]);
		replace(path, argv);
		if (errno != ENOENT)
			return;
	}
	replace(LIBEXECDIR "/full/hookhost", argv);
}

int main(int argc, char **argv)
{
	static char text[1 << 20]; // far more than an attach is answered with
	struct call c;
	if (parse(&c, argc, argv)) {
		ssize_t length = ask(&c, text, sizeof text);
		size_t left;
		char *words = length > 0 ? body(text, (size_t)length, &left) : NULL;
		if (words)
			finish(&c, words, left);
	}
	become(argv);
	fprintf(stderr, "hookhost: neither full/hookhost beside it nor " LIBEXECDIR "/full/hookhost can be run: %s\n", strerror(errno));
	return 127;
}
