/* sijil-keyd holds the keys. It has no network: gateways on this machine connect to its unix socket. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/priority.h"
#include "base/sandbox.h"
#include "cmd/sijil_keyd_settings.h"
#include "crypto/secret.h"
#include "policy/run_day.h"
#include "policy/set_change.h"

static struct result make_ledgers(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err)
{
    TRY(ledger_create(directory, key, err));
    TRY(key_register_create(directory, key, err));
    TRY(log_rotation_create(directory, key, err));
    TRY(replacements_create(directory, key, err));
    return run_ledger_create(directory, key, 0, err);
}

/* The key of the main sijil-keyd, which is replaced with no sijil-keyd serving. Prints the key that the region's record names. */
static struct result trust_main(const struct keyd_settings *settings, int directory, struct bytes passphrase, struct error *err)
{
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED(ecdsa_key) *main_key = NULL;
    OWNED(keyring) *keyring = NULL;
    OWNED(ledger) *ledger = NULL;

    TRY(ecdsa_key_load(settings->main_key, &main_key, err));
    TRY(keyring_open(directory, passphrase, &keyring, err));
    *settings->has_keys = true;
    if (region_keyd_of(keyring) == NULL) return failure(err, ERROR_INVALID, "this key ring is of no region");
    TRY(ledger_open(directory, keyring_ledger_key(keyring), &ledger, err));
    TRY(region_keyd_trust(ledger, main_key, err));
    ecdsa_key_public(keyring_document_key(keyring), point);
    ecdsa_thumbprint(point, thumbprint);
    (void)printf("%s\n", thumbprint);
    return SUCCESS;
}

static struct result make_key_ring(const struct keyd_settings *settings, int directory, struct bytes passphrase, struct hsm *hsm,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER origin = BUFFER(512); /* a key ring has less room */
    struct keyring_options made = {.passphrase = passphrase, .cost = PASSWORD_COST_DEFAULT, .hsm = hsm};
    OWNED(ecdsa_key) *main_key = NULL; /* read before anything is made */

    TRY(region_keyd_origin(settings->origin, settings->region, &origin, err));
    if (settings->main_key != NULL) TRY(ecdsa_key_load(settings->main_key, &main_key, err));
    made.origin = buffer_text(&origin);
    TRY(keyring_create(directory, &made, make_ledgers, err));
    return settings->region == NULL ? SUCCESS : trust_main(settings, directory, passphrase, err);
}

static struct result add_version(int directory, struct bytes passphrase, struct hsm *hsm, struct error *err)
{
    uint32_t added = 0;

    TRY(keyring_add_version(directory, passphrase, hsm, &added, err));
    (void)printf("version %u is used from the next start on\n", added);
    return SUCCESS;
}

/* With the file of the keys open no sijil-keyd serves: it would not know the new key. A key ring with several keys and without the file is
 * refused at the start, so the file is made first. */
static struct result add_log_key(const struct keyd_settings *settings, int directory, struct bytes passphrase, struct error *err)
{
    OWNED(keyring) *keyring = NULL, *changed = NULL;
    OWNED(log_rotation) *rotation = NULL;
    OWNED(ledger) *ledger = NULL;
    struct buffer OWNED_BUFFER vkey = BUFFER(512); /* an origin of at most 127 bytes, and a key */
    struct log_rotation_state state;

    TRY(keyring_open(directory, passphrase, &keyring, err));
    *settings->has_keys = true;
    if (region_keyd_of(keyring) != NULL) return failure(err, ERROR_DENIED, "the sijil-keyd of a region signs no log");
    TRY(log_rotation_open(directory, keyring, &rotation, err));
    TRY(ledger_open(directory, keyring_ledger_key(keyring), &ledger, err));
    TRY(log_rotation_use(rotation, ledger, err));
    log_rotation_state(rotation, &state);
    if (!state.has_next) TRY(keyring_add_log_key(directory, passphrase, err));
    TRY(keyring_open(directory, passphrase, &changed, err));
    const struct signed_log log = {changed, ledger_number(ledger)};
    TRY(keyring_newest_log_key(&log, &vkey, err));
    (void)printf("%s\n", buffer_text(&vkey));
    return SUCCESS;
}

/*
 * keyd has no access to the database. When a re-wrap finds no more row under an older version, it reports this to keyd. The
 * report is void as soon as a gateway asks for such a version (keyd/answer.c).
 */
static struct result check_unused(const struct ledger_state *state, uint32_t version, struct error *err)
{
    if (version < state->unused_below) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "version %u may be in use: 'sijil admin rewrap' must end first, and 'sijil admin keys' says how many keys "
                   "are under which version. With --force they are lost for good, and every blob that they open",
                   version);
}

static struct result destroy_version(const struct keyd_settings *settings, int directory, struct bytes passphrase,
                                     struct hsm *hsm, struct error *err)
{
    const uint32_t version = (uint32_t)settings->destroyed;
    OWNED(keyring) *keyring = NULL;
    OWNED(ledger) *ledger = NULL;
    struct ledger_state state;
    struct keyring_destruction what = {.passphrase = passphrase, .hsm = hsm, .number = version, .now_s = clock_wall_ms() / 1000};

    /* The key ring stays open during the destruction, so that no sijil-keyd can serve: it would still have the version in
     * memory. */
    TRY(keyring_open(directory, passphrase, &keyring, err));
    *settings->has_keys = true;
    TRY(ledger_open(directory, keyring_ledger_key(keyring), &ledger, err));
    ledger_read(ledger, &state);
    what.unused_below = state.unused_below;
    if (!settings->force) TRY(check_unused(&state, version, err));
    TRY(keyring_destroy_version(directory, &what, err));
    (void)printf("version %u is destroyed in this key ring; destroy or replace every copy and backup of the file too\n", version);
    return SUCCESS;
}

static struct result drop_finding(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    memset(state->finding, 0, sizeof state->finding);
    return SUCCESS;
}

static struct result accept_log(const struct keyd_settings *settings, int directory, struct bytes passphrase, struct error *err)
{
    OWNED(keyring) *keyring = NULL;
    OWNED(ledger) *ledger = NULL;
    struct ledger_state state;

    TRY(keyring_open(directory, passphrase, &keyring, err));
    *settings->has_keys = true;
    TRY(ledger_open(directory, keyring_ledger_key(keyring), &ledger, err));
    ledger_read(ledger, &state);
    if (state.finding[0] == '\0') return failure(err, ERROR_NOT_FOUND, "no gateway has reported a difference in the log");
    TRY(ledger_change(ledger, drop_finding, NULL, err));
    (void)printf("forgotten: %s\n", state.finding);
    return ledger_settle(ledger, err);
}

/* Waits for a signal, or for a ledger that only a restart can read. */
static struct result wait_for_end(const struct keyd *keyd, struct server *server, struct error *err)
{
    const struct timespec look = {.tv_nsec = 200000000};
    sigset_t ends;

    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    while (sigtimedwait(&ends, NULL, &look) < 0) {
        if (ledger_is_broken(keyd->ledger) || run_ledger_is_broken(keyd->runs) || key_register_is_broken(keyd->keys) ||
            policy_ids_is_broken(keyd->ids) || region_keyds_are_broken(keyd->regions) ||
            organisation_officers_are_broken(keyd->officers) || organisation_restrictions_are_broken(keyd->restrictions) ||
            log_rotation_is_broken(keyd->rotation) || replacements_are_broken(keyd->replacements))
            return failure(err, ERROR_UNAVAILABLE,
                           "the ledger could not be written: repair the disk; the next start "
                           "reads it");
        server_relieve(server);
    }
    return SUCCESS;
}

/* All threads inherit the mask, so only wait_for_end() gets the signals. */
static void block_signals(void)
{
    sigset_t blocked;

    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGTERM);
    (void)sigaddset(&blocked, SIGINT);
    (void)sigaddset(&blocked, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
}

static void complete_server_options(const struct keyd_settings *settings, struct server_options *server)
{
    *server = settings->server;
    server->socket_path = settings->socket;
    server->group = settings->has_group ? (gid_t)settings->group : (gid_t)-1;
    server->mode = 0600;
    if (server->uid_count == 0) server->uids[server->uid_count++] = geteuid();
    for (size_t i = 0; i < server->uid_count; i++)
        if (server->uids[i] != geteuid()) server->mode = 0660;
}

static struct result serve(const struct keyd *keyd, const struct keyd_settings *settings, struct error *err)
{
    OWNED(server) *server = NULL;
    struct server_options server_options;
    struct ledger_state state;
    struct error untold;
    char log_size[24]; /* a 64-bit number */

    ledger_read(keyd->ledger, &state);
    (void)snprintf(log_size, sizeof log_size, "%llu", (unsigned long long)state.log_size);
    block_signals();
    complete_server_options(settings, &server_options);
    TRY(keyd_self_test(keyd, err));
    if (!sandbox_lock_memory()) log_line(LOG_INFO, "only secrets are locked in memory; lift RLIMIT_MEMLOCK to lock all", NULL);
    TRY(server_new(keyd, &server_options, &server, err));
    TRY(server_open_socket(server, err));
    if (!notify_connect(&untold).ok) log_error("the service manager is not told", &untold);
    TRY(sandbox_enter(err));
    server_start(server);
    (void)notify_send("READY=1");
    log_line(LOG_INFO, "ready", "socket", settings->socket, "origin", keyring_origin(keyd->keyring), "signed", log_size, NULL);
    TRY(wait_for_end(keyd, server, err));
    (void)notify_send("STOPPING=1");
    log_line(LOG_INFO, "ending", NULL);
    return SUCCESS;
}

/* The passphrase is wiped as soon as the key ring is open. */
static struct result open_key_ring(int directory, struct secret **passphrase, struct keyring **keyring_out, struct error *err)
{
    const struct result opened = keyring_open(directory, secret_bytes(*passphrase), keyring_out, err);

    secret_free(*passphrase);
    *passphrase = NULL;
    return opened;
}

static const struct rate_limit unwraps = {"the project's keys are unwrapped", UNWRAP_RATE_PER_S, UNWRAP_BURST};

static struct result open_log_keys(int directory, const struct keyring *keyring, struct ledger *ledger,
                                   struct log_rotation **rotation_out, struct error *err)
{
    TRY(log_rotation_open(directory, keyring, rotation_out, err));
    return log_rotation_use(*rotation_out, ledger, err);
}

/* What was pinned says who restricts an organisation, and by what, and which regions have a sijil-keyd of their own. */
struct pinned_files {
    struct organisation_officers *officers;
    struct organisation_restrictions *restrictions;
    struct region_keyds *regions;
};

static void pinned_files_done(struct pinned_files *files)
{
    organisation_officers_free(files->officers);
    organisation_restrictions_free(files->restrictions);
    region_keyds_free(files->regions);
}

static struct result open_pinned_files(int directory, const struct keyring *keyring, struct ledger *ledger,
                                       struct pinned_files *files, struct error *err)
{
    const uint8_t *key = keyring_ledger_key(keyring);

    TRY(organisation_officers_open(directory, key, ledger, &files->officers, err));
    TRY(organisation_restrictions_open(directory, key, ledger, &files->restrictions, err));
    return region_keyds_open(directory, key, &files->regions, err);
}

static struct result load_and_serve(const struct keyd_settings *settings, int directory, struct secret **passphrase,
                                    struct hsm *hsm, struct error *err)
{
    OWNED(keyring) *keyring = NULL;
    OWNED(ledger) *ledger = NULL;
    OWNED(rate) *rate = NULL;
    OWNED(mint_limits) *mints = NULL;
    OWNED(run_ledger) *runs = NULL;
    OWNED(key_register) *keys = NULL;
    OWNED(quorum) *quorum = NULL;
    OWNED(log_rotation) *rotation = NULL;
    OWNED(policy_ids) *ids = NULL;
    OWNED(replacements) *replacements = NULL;
    __attribute__((cleanup(pinned_files_done))) struct pinned_files files = {NULL, NULL, NULL};
    OWNED(region_keyd) *region = NULL;

    TRY(open_key_ring(directory, passphrase, &keyring, err));
    TRY(keyring_use_token(keyring, hsm, err));
    *settings->has_keys = true;
    TRY(ledger_open(directory, keyring_ledger_key(keyring), &ledger, err));
    TRY(region_keyd_new(keyring, ledger, &settings->place, &region, err));
    TRY(run_ledger_open(directory, keyring_ledger_key(keyring), clock_wall_ms(), &runs, err));
    TRY(key_register_open(directory, keyring_ledger_key(keyring), ledger, &keys, err));
    TRY(policy_ids_open(directory, keyring_ledger_key(keyring), ledger, &ids, err));
    TRY(open_pinned_files(directory, keyring, ledger, &files, err));
    TRY(replacements_open(directory, keyring_ledger_key(keyring), ledger, &replacements, err));
    TRY(open_log_keys(directory, keyring, ledger, &rotation, err));
    TRY(rate_new(&unwraps, &rate, err));
    TRY(mint_limits_new(&mints, err));
    TRY(quorum_new(settings->witness_patience == 0 ? QUORUM_PATIENCE_S : settings->witness_patience, &quorum, err));
    const struct keyd keyd = {.keyring = keyring,
                              .ledger = ledger,
                              .rate = rate,
                              .mints = mints,
                              .runs = runs,
                              .keys = keys,
                              .quorum = quorum,
                              .rotation = rotation,
                              .replacements = replacements,
                              .one_officer = settings->one_officer,
                              .ids = ids,
                              .officers = files.officers,
                              .restrictions = files.restrictions,
                              .regions = files.regions,
                              .region = region,
                              .check_run = policy_run_day,
                              .check_set = policy_set_change_to_pin};
    TRY(serve(&keyd, settings, err));
    return ledger_settle(ledger, err);
}

static struct result act(const struct keyd_settings *settings, int directory, struct secret **passphrase, struct hsm *hsm,
                         struct error *err)
{
    const struct bytes phrase = secret_bytes(*passphrase);

    if (settings->init) return make_key_ring(settings, directory, phrase, hsm, err);
    if (settings->add_version) return add_version(directory, phrase, hsm, err);
    if (settings->add_log_key) return add_log_key(settings, directory, phrase, err);
    if (settings->main_key != NULL) return trust_main(settings, directory, phrase, err);
    if (settings->log_restored) return accept_log(settings, directory, phrase, err);
    if (settings->destroyed != 0) return destroy_version(settings, directory, phrase, hsm, err);
    return load_and_serve(settings, directory, passphrase, hsm, err);
}

/* The processes of a token start before any secret of ours is in memory. */
static struct result run(const struct keyd_settings *settings, struct error *err)
{
    OWNED(secret) *passphrase = NULL;
    OWNED(hsm) *hsm = NULL;
    OWNED_FD directory = -1;

    TRY(sandbox_prepare(err));
    notify_find();
    if (settings->token.module == NULL) environment_keep(environment_of_servers); /* a vendor's module has variables of its own */
    passphrase_close_inherited(&settings->passphrase);
    if (settings->token.module != NULL) TRY(hsm_start(&settings->token, &hsm, err));
    TRY(passphrase_read(&settings->passphrase, &passphrase, err));
    TRY(passphrase_open_directory(settings->directory, &directory, err));
    return act(settings, directory, &passphrase, hsm, err);
}

/*
 * A service manager does not restart keyd after EXIT_USAGE, because a wrong PIN, tried often enough, locks the token. A
 * missing token may be there later, so this case has another status.
 */
static int exit_status(const struct keyd_settings *settings, const struct error *err)
{
    const bool is_missing = err->kind == ERROR_NOT_FOUND && settings->token.module == NULL;
    const bool is_setting = err->kind == ERROR_DENIED || err->kind == ERROR_INVALID || is_missing;

    return is_setting && !*settings->has_keys ? EXIT_USAGE : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    bool has_keys = false;
    struct keyd_settings settings = {.token = {.timeout_ms = 1500}, .has_keys = &has_keys};
    struct error err = {0};

    keyd_settings_read(argc, argv, &settings);
    priority_interactive();
    const bool ok = run(&settings, &err).ok;
    if (!ok) log_error("sijil-keyd ends", &err);
    (void)fflush(stdout);
    _exit(ok ? EXIT_SUCCESS : exit_status(&settings, &err)); /* inside the sandbox nothing else may run */
}
