#include "cmd/sijil_keyd_settings.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "cmd/options.h"

static _Noreturn void misused(const char *what)
{
    (void)fprintf(stderr, "sijil-keyd: %s\nTry 'sijil-keyd --help' for more information.\n", what);
    exit(EXIT_USAGE);
}

static _Noreturn void show_and_end(bool help)
{
    if (help) program_print_help(stdout, &keyd_program);
    else (void)fputs("sijil-keyd " SIJIL_VERSION "\n", stdout);
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static uint64_t number(const char *text, const char *what)
{
    uint64_t value = 0;

    if (!text_to_u64(bytes_of_text(text), UINT32_MAX - 1, &value)) misused(what);
    return value;
}

/* A unit file can't know the numbers of a machine's users, so names are allowed. Text that is a number is never looked up as a name. */
static uid_t uid_of(const char *text)
{
    uint64_t value = 0;

    if (text_to_u64(bytes_of_text(text), UINT32_MAX - 1, &value)) return (uid_t)value;
    const struct passwd *user = getpwnam(text);
    if (user == NULL) misused("--allow-uid needs a number or the name of a user that exists");
    return user->pw_uid;
}

static void take_uid(struct server_options *server, const char *text)
{
    if (server->uid_count == SERVER_UIDS_MAX) misused("too many --allow-uid");
    server->uids[server->uid_count++] = uid_of(text);
}

static void take_number(struct keyd_settings *settings, int code)
{
    switch (code) {
    case KEYD_PASSPHRASE_FD:
        settings->passphrase.fd = (unsigned)number(optarg, "--passphrase-fd needs a number");
        settings->passphrase.has_fd = true;
        break;
    case KEYD_SOCKET_GROUP:
        settings->group = number(optarg, "--socket-group needs a number");
        settings->has_group = true;
        break;
    case KEYD_DESTROY_VERSION:
        settings->destroyed = number(optarg, "--destroy-version needs a number");
        if (settings->destroyed == 0) misused("--destroy-version needs a number from 1");
        break;
    case KEYD_WITNESS_PATIENCE:
        settings->witness_patience = (unsigned)number(optarg, "--witness-patience needs a number");
        if (settings->witness_patience < 5 || settings->witness_patience > QUORUM_PATIENCE_S)
            misused("--witness-patience is 5 to 3600 seconds");
        break;
    case KEYD_CURRENT_PATIENCE:
        settings->place.patience_s = (unsigned)number(optarg, "--current-patience needs a number");
        if (settings->place.patience_s < 5 || settings->place.patience_s > KEYD_CURRENT_S)
            misused("--current-patience is 5 to 600 seconds");
        break;
    case KEYD_TOKEN_TIMEOUT:
        settings->token.timeout_ms = (unsigned)number(optarg, "--token-timeout needs a number");
        if (settings->token.timeout_ms < 10 || settings->token.timeout_ms > 60000) misused("--token-timeout is 10 to 60000 ms");
        break;
    default: misused("an option is wrong: see the message above");
    }
}

static void take_option(struct keyd_settings *settings, int code)
{
    switch (code) {
    case KEYD_DIRECTORY: settings->directory = optarg; break;
    case KEYD_SOCKET: settings->socket = optarg; break;
    case KEYD_PASSPHRASE_FILE: settings->passphrase.file = optarg; break;
    case KEYD_ALLOW_UID: take_uid(&settings->server, optarg); break;
    case KEYD_ORIGIN: settings->origin = optarg; break;
    case KEYD_INIT: settings->init = true; break;
    case KEYD_ADD_VERSION: settings->add_version = true; break;
    case KEYD_ADD_LOG_KEY: settings->add_log_key = true; break;
    case KEYD_FORCE: settings->force = true; break;
    case KEYD_ONE_OFFICER: settings->one_officer = true; break;
    case KEYD_LOG_RESTORED: settings->log_restored = true; break;
    case KEYD_TOKEN_MODULE: settings->token.module = optarg; break;
    case KEYD_TOKEN_LABEL: settings->token.token = optarg; break;
    case KEYD_TOKEN_PIN_FILE: settings->token.pin_file = optarg; break;
    case KEYD_REGION: settings->region = optarg; break;
    case KEYD_MAIN_KEY: settings->main_key = optarg; break;
    case KEYD_KEY_RING: settings->place.ring = optarg; break;
    case KEYD_KEY_GEO: settings->place.geo = optarg; break;
    case KEYD_KEY_CONTROL: settings->place.control = optarg; break;
    case KEYD_HELP: show_and_end(true);
    case KEYD_VERSION: show_and_end(false);
    default: take_number(settings, code);
    }
}

static void check_acts(const struct keyd_settings *settings)
{
    const bool trusts = settings->main_key != NULL && !settings->init;
    const int acts = settings->init + settings->add_version + settings->add_log_key + (settings->destroyed != 0) +
                     settings->log_restored + trusts;

    if (acts > 1)
        misused("--init, --add-version, --add-log-key, --destroy-version, --log-restored and --main-key exclude each other; "
                "--main-key goes with --init --region");
    if (settings->init != (settings->origin != NULL)) misused("--init and --origin go together");
    if (settings->region != NULL && !settings->init) misused("--region belongs to --init: a key ring knows its region");
    if (settings->init && (settings->region != NULL) != (settings->main_key != NULL))
        misused("--region and --main-key go together");
    if (acts == 0 && settings->socket == NULL) misused("--socket is missing");
}

void keyd_settings_read(int argc, char **argv, struct keyd_settings *settings)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];
    int code;

    program_long_options(&keyd_program, options);
    while ((code = getopt_long(argc, argv, "", options, NULL)) != -1) take_option(settings, code);
    if (optind < argc) misused("there are arguments that belong to no option");
    if (settings->directory == NULL) misused("--directory is missing");
    if ((settings->passphrase.file != NULL) == settings->passphrase.has_fd)
        misused("give either --passphrase-file or --passphrase-fd");
    const bool has_module = settings->token.module != NULL;
    if (has_module != (settings->token.token != NULL) || has_module != (settings->token.pin_file != NULL))
        misused("--token-module, --token-label and --token-pin-file go together");
    if (settings->force && settings->destroyed == 0) misused("--force belongs to --destroy-version");
    check_acts(settings);
}
