#include "tests/support/s3_peer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum { WAIT_STEPS = 3000, LINE_SIZE = 4096 };

static void path_of(const struct s3_peer *peer, const char *name, char out[64])
{
    (void)snprintf(out, 64, "%.40s/%.20s", peer->folder, name);
}

static void write_text(const char *path, const char *text)
{
    char fresh[80];

    (void)snprintf(fresh, sizeof fresh, "%.70s.new", path);
    FILE *file = fopen(fresh, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static void spawn(struct s3_peer *peer)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t parent = getpid();
    peer->process = fork();
    assert_true(peer->process >= 0);
    if (peer->process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no process running */
        if (getppid() != parent) _exit(127);
        (void)dup2(ends[0], STDIN_FILENO);
        (void)execl("/usr/bin/python3", "/usr/bin/python3", S3_SERVER, peer->folder, "--part-minimum", "100000", "--page", "3",
                    NULL);
        _exit(127);
    }
    (void)close(ends[0]);
    peer->input = ends[1];
}

static void wait_until_it_listens(struct s3_peer *peer)
{
    char path[64], port[8] = "";

    path_of(peer, "port", path);
    for (unsigned step = 0; access(path, R_OK) != 0; step++) {
        assert_true(step < WAIT_STEPS && waitpid(peer->process, NULL, WNOHANG) == 0);
        (void)usleep(10000);
    }
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(port, sizeof port, file));
    (void)fclose(file);
    (void)snprintf(peer->endpoint, sizeof peer->endpoint, "https://127.0.0.1:%s", port);
}

static void use_own(struct s3_peer *peer)
{
    (void)snprintf(peer->folder, sizeof peer->folder, "/tmp/sijil_s3_XXXXXX");
    assert_non_null(mkdtemp(peer->folder));
    spawn(peer);
    wait_until_it_listens(peer);
    path_of(peer, "key", peer->key_file);
    path_of(peer, "ca.pem", peer->ca_file);
    peer->options = (struct driver_s3_options){.s3 = {.endpoint = peer->endpoint,
                                                      .bucket = "models",
                                                      .location = "me-test-1",
                                                      .access_key_file = peer->key_file,
                                                      .ca_file = peer->ca_file,
                                                      .pause_ms = 1,
                                                      .silence_s = 5},
                                               .part_bytes = 100000,
                                               .segment_bytes = 350000};
}

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) fail_msg("%s is not set", name);
    return value;
}

static void use_real(struct s3_peer *peer)
{
    peer->is_real = true;
    peer->options = (struct driver_s3_options){.s3 = {.endpoint = setting("SIJIL_S3_ENDPOINT"),
                                                      .bucket = setting("SIJIL_S3_BUCKET"),
                                                      .location = setting("SIJIL_S3_LOCATION"),
                                                      .access_key_file = setting("SIJIL_S3_KEY_FILE"),
                                                      .ca_file = setting("SIJIL_S3_CA_FILE")},
                                               .segment_bytes = 24u << 20};
}

void s3_peer_start(struct s3_peer *peer)
{
    struct timespec now;

    *peer = (struct s3_peer){.input = -1, .process = -1};
    if (getenv("SIJIL_S3_ENDPOINT") == NULL) use_own(peer);
    else use_real(peer);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(peer->prefix, sizeof peer->prefix, "t%lx%lx/", (unsigned long)now.tv_sec, (unsigned long)now.tv_nsec);
    peer->database = database_new();
    peer->options.region = "test/here";
    peer->options.prefix = peer->prefix;
    peer->options.database = database_app(peer->database);
}

void s3_peer_stop(struct s3_peer *peer)
{
    char command[80];

    database_free(peer->database);
    if (peer->is_real) return;
    (void)close(peer->input);
    (void)waitpid(peer->process, NULL, 0);
    (void)snprintf(command, sizeof command, "rm -rf -- %s", peer->folder);
    if (system(command) != 0) abort(); /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

struct driver *s3_peer_driver(const struct s3_peer *peer)
{
    struct driver *driver = NULL;
    struct error err = {0};

    if (!driver_s3_open(&peer->options, &driver, &err).ok) fail_msg("%s", err.message);
    return driver;
}

/* ---- The plan and the log of the peer ---- */

void s3_peer_plan(const struct s3_peer *peer, const char *how, const char *only, unsigned skip, unsigned count)
{
    char path[64], text[160];

    path_of(peer, "plan", path);
    (void)snprintf(text, sizeof text, "{\"how\":\"%s\",\"only\":\"%s\",\"skip\":%u,\"count\":%u}", how, only, skip, count);
    write_text(path, text);
}

void s3_peer_heal(const struct s3_peer *peer)
{
    s3_peer_plan(peer, "", "", 0, 0);
}

void s3_peer_say(const struct s3_peer *peer, const char *members)
{
    char path[64];

    path_of(peer, "plan", path);
    write_text(path, members);
}

void s3_peer_move(const struct s3_peer *peer, const char *location)
{
    char path[64], text[80];

    path_of(peer, "plan", path);
    (void)snprintf(text, sizeof text, "{\"location\":\"%s\"}", location);
    write_text(path, text);
}

/* Calls `look` for each line of the log. */
static void each_line(const struct s3_peer *peer, void (*look)(const char *line, void *context), void *context)
{
    char path[64], line[LINE_SIZE];

    path_of(peer, "log", path);
    FILE *file = fopen(path, "re");
    if (file == NULL) return; /* nothing yet */
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "CRASH", 5) == 0) fail_msg("the server: %s", line);
        look(line, context);
    }
    (void)fclose(file);
}

struct counting {
    const char *beginning;
    unsigned count, objects, uploads;
};

static void count_line(const char *line, void *context)
{
    struct counting *counting = context;

    counting->count += strncmp(line, counting->beginning, strlen(counting->beginning)) == 0;
    (void)sscanf(line, "%*s %*s %*s %*s %*s %u %u", &counting->objects,
                 &counting->uploads); /* NOLINT(cert-err34-c): our own log */
}

unsigned s3_peer_requests(const struct s3_peer *peer, const char *beginning)
{
    struct counting counting = {.beginning = beginning};

    each_line(peer, count_line, &counting);
    return counting.count;
}

void s3_peer_left(const struct s3_peer *peer, unsigned *objects_out, unsigned *uploads_out)
{
    struct counting counting = {.beginning = ""};

    each_line(peer, count_line, &counting);
    *objects_out = counting.objects;
    *uploads_out = counting.uploads;
}

unsigned s3_peer_rows(const struct s3_peer *peer)
{
    const char *count =
        database_ask(peer->database, "SELECT (SELECT count(*) FROM multipart) + (SELECT count(*) FROM multipart_piece)");

    return (unsigned)strtoul(count, NULL, 10);
}
