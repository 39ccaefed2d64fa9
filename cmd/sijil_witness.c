/* sijil-witness cosigns checkpoints of logs: witness/. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/heads.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "cmd/options.h"
#include "cmd/passphrase.h"
#include "witness/heads.h"
#include "witness/serve.h"

enum { EXIT_USAGE = 2 };
#define DEFAULT_PORT 8445

struct settings {
    const char *directory, *logs, *name, *accepted, *heads;
    struct passphrase_source passphrase;
    struct witness_options serve;
    bool init, show;
    bool *has_begun; /* set when everything was read: from then on a failure is no mistake of the command line */
};

static _Noreturn void misused(const char *what)
{
    (void)fprintf(stderr, "sijil-witness: %s\nTry 'sijil-witness --help' for more information.\n", what);
    exit(EXIT_USAGE);
}

static _Noreturn void show_and_end(bool help)
{
    if (help) program_print_help(stdout, &witness_program);
    else (void)fputs("sijil-witness " SIJIL_VERSION "\n", stdout);
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static unsigned number(const char *text, uint64_t most, const char *what)
{
    uint64_t value = 0;

    if (!text_to_u64(bytes_of_text(text), most, &value)) misused(what);
    return (unsigned)value;
}

static void take_option(struct settings *settings, int code)
{
    switch (code) {
    case WITNESS_DIRECTORY: settings->directory = optarg; break;
    case WITNESS_LOGS: settings->logs = optarg; break;
    case WITNESS_ADDRESS: settings->serve.address = optarg; break;
    case WITNESS_PORT: settings->serve.port = (int)number(optarg, 65535, "--listen-port is a number up to 65535"); break;
    case WITNESS_SOCKET: settings->serve.socket = optarg; break;
    case WITNESS_CERTIFICATE: settings->serve.certificate = optarg; break;
    case WITNESS_KEY: settings->serve.key = optarg; break;
    case WITNESS_INIT: settings->init = true; break;
    case WITNESS_NAME: settings->name = optarg; break;
    case WITNESS_ACCEPT: settings->accepted = optarg; break;
    case WITNESS_SHOW: settings->show = true; break;
    case WITNESS_COSIGN_HEADS: settings->heads = optarg; break;
    case WITNESS_PASSPHRASE_FILE: settings->passphrase.file = optarg; break;
    case WITNESS_PASSPHRASE_FD:
        settings->passphrase.fd = number(optarg, INT32_MAX, "--passphrase-fd needs a number");
        settings->passphrase.has_fd = true;
        break;
    case WITNESS_HELP: show_and_end(true);
    case WITNESS_VERSION: show_and_end(false);
    default: misused("an option is wrong: see the message above");
    }
}

static void check_settings(const struct settings *settings)
{
    const bool serves = !settings->init && !settings->show && settings->accepted == NULL && settings->heads == NULL;

    if (settings->directory == NULL) misused("--directory is missing");
    if (settings->init + settings->show + (settings->accepted != NULL) + (settings->heads != NULL) > 1)
        misused("--init, --accept, --cosign-heads and --show exclude each other");
    if (settings->init != (settings->name != NULL)) misused("--init and --name go together");
    if (!settings->init && settings->heads == NULL && settings->logs == NULL) misused("--logs is missing");
    if (settings->accepted == NULL && (settings->passphrase.file != NULL) == settings->passphrase.has_fd)
        misused("give either --passphrase-file or --passphrase-fd");
    if (serves && (settings->serve.certificate == NULL || settings->serve.key == NULL))
        misused("--tls-certificate and --tls-key are needed");
}

static void read_command_line(int argc, char **argv, struct settings *settings)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];
    int code;

    program_long_options(&witness_program, options);
    while ((code = getopt_long(argc, argv, "", options, NULL)) != -1) take_option(settings, code);
    if (optind < argc) misused("there are arguments that belong to no option");
    check_settings(settings);
}

static struct result read_logs(const char *path, struct log_list **list_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_LIST_BYTES_MAX);

    TRY(file_read(path, &text, err));
    return log_list_read(buffer_bytes(&text), list_out, err);
}

static struct result print_keys(const struct witness_identity *identity, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096);

    TRY(witness_identity_print(identity, &text, err));
    (void)fputs(buffer_text(&text), stdout);
    return SUCCESS;
}

static struct result open_identity(const struct settings *settings, int directory, struct witness_identity **identity_out,
                                   struct error *err)
{
    OWNED(secret) *passphrase = NULL;

    TRY(passphrase_read(&settings->passphrase, &passphrase, err));
    return witness_identity_open(directory, secret_bytes(passphrase), identity_out, err);
}

static struct result make_identity(const struct settings *settings, int directory, struct error *err)
{
    OWNED(secret) *passphrase = NULL;
    OWNED(witness_identity) *identity = NULL;

    TRY(passphrase_read(&settings->passphrase, &passphrase, err));
    TRY(witness_identity_create(directory, settings->name, secret_bytes(passphrase), PASSWORD_COST_DEFAULT, err));
    TRY(witness_identity_open(directory, secret_bytes(passphrase), &identity, err));
    return print_keys(identity, err);
}

static struct result read_statement(const char *path, struct buffer *statement, struct error *err)
{
    uint8_t block[HEADS_NOTE_MAX];

    if (strcmp(path, "-") != 0) return file_read(path, statement, err);
    const size_t count = fread(block, 1, sizeof block, stdin);
    return buffer_add(statement, block, count, err);
}

static struct result cosign_heads(const struct settings *settings, int directory, struct error *err)
{
    struct buffer OWNED_BUFFER statement = BUFFER(HEADS_NOTE_MAX), note = BUFFER(HEADS_NOTE_MAX);
    OWNED(witness_identity) *identity = NULL;

    TRY(open_identity(settings, directory, &identity, err));
    TRY(read_statement(settings->heads, &statement, err));
    TRY(witness_cosign_heads(identity, buffer_bytes(&statement), (uint64_t)(clock_wall_ms() / 1000), &note, err));
    (void)fputs(buffer_text(&note), stdout);
    return SUCCESS;
}

static struct result accept_log(const struct settings *settings, int directory, struct error *err)
{
    OWNED(log_list) *list = NULL;

    TRY(read_logs(settings->logs, &list, err));
    TRY(witness_state_accept(directory, list, settings->accepted, err));
    (void)printf("%s is accepted from zero: the next checkpoint of it may have any size\n", settings->accepted);
    return SUCCESS;
}

static struct result show(const struct witness *witness, struct error *err)
{
    TRY(print_keys(witness->identity, err));
    for (size_t i = 0; i < witness_state_count(witness->state); i++) {
        struct watched_log *log = witness_state_at(witness->state, i);
        const struct watched_position position = watched_log_position(log);
        if (position.is_accepted) (void)printf("%s %llu\n", watched_log_about(log)->origin, (unsigned long long)position.size);
        else (void)printf("%s is not accepted: see --accept\n", watched_log_about(log)->origin);
    }
    return SUCCESS;
}

/* All threads inherit the mask, so only wait_for_end() gets the signals. */
static void block_signals(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, signals, NULL);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static void wait_for_end(struct witness_server *server, const sigset_t *signals)
{
    struct error err = {0};
    int caught = 0;

    while (sigwait(signals, &caught) == 0 && caught == SIGHUP) {
        if (witness_server_reload(server, &err).ok) log_line(LOG_INFO, "the certificate was read again", NULL);
        else log_error("the certificate stays as it was", &err);
    }
}

static void warn_of_strangers(const struct witness *witness)
{
    for (size_t i = 0; i < witness_state_count(witness->state); i++) {
        struct watched_log *log = witness_state_at(witness->state, i);
        if (watched_log_position(log).is_accepted) continue;
        log_line(LOG_WARNING, "a log of the list has no state here, and is refused until somebody accepts it with --accept",
                 "origin", watched_log_about(log)->origin, NULL);
    }
}

static struct result serve(const struct witness *witness, const struct settings *settings, struct error *err)
{
    struct witness_server *server = NULL;
    struct error untold;
    sigset_t signals;
    char port[12]; /* a port */

    block_signals(&signals);
    if (!notify_connect(&untold).ok) log_error("the service manager is not told", &untold);
    TRY(witness_serve(witness, &settings->serve, &server, err));
    *settings->has_begun = true;
    TRY(sandbox_enter_gateway(err));
    (void)notify_send("READY=1");
    (void)snprintf(port, sizeof port, "%d", witness_server_port(server));
    log_line(LOG_INFO, "ready", "witness", witness->identity->key.name, "port", port, NULL);
    warn_of_strangers(witness);
    wait_for_end(server, &signals);
    (void)notify_send("STOPPING=1");
    witness_server_stop(server);
    return SUCCESS;
}

static struct result run(const struct settings *settings, struct error *err)
{
    OWNED(log_list) *list = NULL;
    OWNED(witness_identity) *identity = NULL;
    OWNED(witness_state) *state = NULL;
    OWNED_FD directory = -1;

    TRY(sandbox_prepare(err));
    notify_find();
    environment_keep(environment_of_servers);
    passphrase_close_inherited(&settings->passphrase);
    TRY(passphrase_open_directory(settings->directory, &directory, err));
    if (settings->init) return make_identity(settings, directory, err);
    if (settings->accepted != NULL) return accept_log(settings, directory, err);
    if (settings->heads != NULL) return cosign_heads(settings, directory, err);
    TRY(open_identity(settings, directory, &identity, err));
    TRY(read_logs(settings->logs, &list, err));
    TRY(witness_state_open(directory, list, &identity->key, &state, err));
    const struct witness witness = {.identity = identity, .state = state};
    return settings->show ? show(&witness, err) : serve(&witness, settings, err);
}

int main(int argc, char **argv)
{
    bool has_begun = false;
    struct settings settings = {.serve = {.address = "127.0.0.1", .port = DEFAULT_PORT, .socket = ""}, .has_begun = &has_begun};
    struct error err = {0};

    read_command_line(argc, argv, &settings);
    const bool ok = run(&settings, &err).ok;
    if (!ok) log_error("sijil-witness ends", &err);
    if (fflush(stdout) != 0) return EXIT_FAILURE;
    if (ok) return EXIT_SUCCESS;
    const bool is_setting =
        err.kind == ERROR_DENIED || err.kind == ERROR_INVALID || err.kind == ERROR_NOT_FOUND || err.kind == ERROR_CORRUPT;
    return is_setting && !has_begun ? EXIT_USAGE : EXIT_FAILURE;
}
