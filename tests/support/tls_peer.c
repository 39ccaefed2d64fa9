#include "tests/support/tls_peer.h"

#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { WAIT_STEPS = 6000, LINE_SIZE = 8192 };

static void spawn(struct tls_peer *peer)
{
    const pid_t parent = getpid();
    int ends[2];

    assert_int_equal(pipe2(ends, 02000000 /* O_CLOEXEC */), 0);
    peer->process = fork();
    assert_true(peer->process >= 0);
    if (peer->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process running */
        if (getppid() != parent) _exit(127);
        (void)dup2(ends[0], STDIN_FILENO);
        (void)execl("/usr/bin/python3", "/usr/bin/python3", TLS_PEER, peer->folder, NULL);
        _exit(127);
    }
    (void)close(ends[0]);
    peer->input = ends[1];
}

static void read_ports(struct tls_peer *peer)
{
    const struct timespec step = {.tv_nsec = 10000000};
    char path[64], text[64] = "";

    (void)snprintf(path, sizeof path, "%s/ports", peer->folder);
    for (unsigned steps = 0; access(path, R_OK) != 0; steps++) {
        assert_true(steps < WAIT_STEPS && waitpid(peer->process, NULL, WNOHANG) == 0);
        (void)nanosleep(&step, NULL);
    }
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    assert_int_equal(sscanf(text, "%u %u %u %u", &peer->main_port, &peer->tls12_port, &peer->mutual_port, &peer->proxy_port), 4);
}

void tls_peer_start(struct tls_peer *peer)
{
    *peer = (struct tls_peer){.input = -1, .process = -1};
    (void)snprintf(peer->folder, sizeof peer->folder, "/tmp/sijil_tls_XXXXXX");
    assert_non_null(mkdtemp(peer->folder));
    spawn(peer);
    read_ports(peer);
    (void)snprintf(peer->ca_file, sizeof peer->ca_file, "%s/ca.pem", peer->folder);
    (void)snprintf(peer->other_file, sizeof peer->other_file, "%s/other.pem", peer->folder);
    (void)snprintf(peer->client_file, sizeof peer->client_file, "%s/client.pem", peer->folder);
    (void)snprintf(peer->client_key, sizeof peer->client_key, "%s/client.key", peer->folder);
}

void tls_peer_stop(struct tls_peer *peer)
{
    char command[80];

    (void)close(peer->input);
    (void)waitpid(peer->process, NULL, 0);
    (void)snprintf(command, sizeof command, "rm -rf -- %s", peer->folder);
    if (system(command) != 0) abort(); /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

unsigned tls_peer_requests(const struct tls_peer *peer, const char *text)
{
    char path[64], line[LINE_SIZE];
    unsigned count = 0;

    (void)snprintf(path, sizeof path, "%s/log", peer->folder);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) count += strstr(line, text) != NULL;
    (void)fclose(file);
    return count;
}

/* ---- The resolver ---- */

static char said[256];
static unsigned questions;

void resolver_says(const char *answers)
{
    (void)snprintf(said, sizeof said, "%s", answers);
    questions = 0;
}

unsigned resolver_questions(void)
{
    return questions;
}

/* Appends the C library's result for each address. */
static int resolve(char *addresses, const char *service, const struct addrinfo *hints, struct addrinfo **list_out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    struct addrinfo literal = *hints, **end = list_out;
    void *const found = dlsym(RTLD_NEXT, "getaddrinfo");

    if (found == NULL) abort();
    memcpy(&real, &found, sizeof found);
    *list_out = NULL;
    literal.ai_flags = AI_NUMERICHOST;
    literal.ai_family = AF_UNSPEC;
    literal.ai_socktype = SOCK_STREAM;
    for (char *left = addresses, *each; (each = strsep(&left, " ")) != NULL;) {
        if (each[0] == '\0' || real(each, service, &literal, end) != 0) continue;
        while (*end != NULL) end = &(*end)->ai_next;
    }
    return *list_out == NULL ? EAI_NONAME : 0;
}

__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                                                       struct addrinfo **list_out)
{
    char answers[sizeof said];
    char *later = NULL;

    (void)name;
    (void)snprintf(answers, sizeof answers, "%s", said);
    if ((later = strchr(answers, ';')) != NULL) *later++ = '\0';
    return resolve(questions++ > 0 && later != NULL ? later : answers, service, hints, list_out);
}
