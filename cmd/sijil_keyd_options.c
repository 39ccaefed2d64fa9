#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row main_rows[] = {
    {KEYD_DIRECTORY, "directory", "DIR", "folder of the key ring and the ledger; no other user may enter it"},
    {KEYD_SOCKET, "socket", "PATH", "unix socket to serve; it appears when keyd is ready"},
    {KEYD_ALLOW_UID, "allow-uid", "USER",
     "user that may connect, by name or number; repeat it for each user; default: keyd's own"},
    {KEYD_SOCKET_GROUP, "socket-group", "GID", "group of the socket, when other users may connect"},
    {KEYD_INIT, "init", NULL, "make a key ring in DIR and end"},
    {KEYD_ORIGIN, "origin", "ORIGIN", "name of the audit log, such as registry.example/audit; it can't be changed later"},
    {KEYD_ADD_VERSION, "add-version", NULL, "add a version of the key-encryption keys, used from the next start on, and end"},
    {KEYD_ADD_LOG_KEY, "add-log-key", NULL,
     "make the next key of the audit log, print its public half, and end; it signs once the root of approvers orders so (docs/keys.md)"},
    {KEYD_DESTROY_VERSION, "destroy-version", "N",
     "destroy version N of the key-encryption keys for good, and end; refused unless a re-wrap has ended and no gateway "
     "has asked for N since"},
    {KEYD_FORCE, "force", NULL, "destroy a version although it may be in use: keys that are wrapped under it are lost for good"},
    {KEYD_ONE_OFFICER, "one-officer", NULL,
     "let the root of approvers alone sign that the log goes on under a new origin; each report of it says so. sijild --embedded gives it, "
     "while it recovers"},
    {KEYD_LOG_RESTORED, "log-restored", NULL,
     "forget that a gateway found the audit log changed, so that it is signed again, and end; use it only when the log is restored and "
     "you know why it was changed"},
    {KEYD_WITNESS_PATIENCE, "witness-patience", "SECONDS",
     "how long documents and orders may go on while no quorum of the pinned witnesses cosigns the log; default, and most: 3600"},
    {KEYD_HELP, "help", NULL, "show this text and end"},
    {KEYD_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_row passphrase_rows[] = {
    {KEYD_PASSPHRASE_FILE, "passphrase-file", "FILE", "first line of a file that only keyd's user may read"},
    {KEYD_PASSPHRASE_FD, "passphrase-fd", "N", "first line of an open descriptor"},
};
static const struct option_row token_rows[] = {
    {KEYD_TOKEN_MODULE, "token-module", "FILE", "the PKCS#11 module of its vendor"},
    {KEYD_TOKEN_LABEL, "token-label", "LABEL", "label of the token"},
    {KEYD_TOKEN_PIN_FILE, "token-pin-file", "FILE", "first line of a file that only keyd's user may read: the token's user PIN"},
    {KEYD_TOKEN_TIMEOUT, "token-timeout", "MS", "longest time for one operation; default: 1500"},
};
static const struct option_row region_rows[] = {
    {KEYD_REGION, "region", "NAME",
     "with --init: make the key ring of this region's sijil-keyd, beside the main one, whose ORIGIN is given"},
    {KEYD_MAIN_KEY, "main-key", "FILE",
     "PEM of the key that signs documents of the main sijil-keyd ('sijil audit key --documents' shows it): with --init, or alone, to replace it"},
    {KEYD_KEY_RING, "key-ring", "NAME", "what it says of itself: the name of its key ring, as in the region's record"},
    {KEYD_KEY_GEO, "key-geo", "PLACE", "the place of its keys, such as AE"},
    {KEYD_KEY_CONTROL, "key-control", "HOW", "customer-hsm, customer-soft or provider-kms"},
    {KEYD_CURRENT_PATIENCE, "current-patience", "SECONDS",
     "how long it opens keys after the main one has last said which policy set is in force; default, and most: 600"},
};
static const struct option_group groups[] = {
    {"", main_rows, COUNT(main_rows)},
    {"PASSPHRASE is one of", passphrase_rows, COUNT(passphrase_rows)},
    {"with key-encryption keys in a PKCS#11 token", token_rows, COUNT(token_rows)},
    {"of the sijil-keyd of a region", region_rows, COUNT(region_rows)},
};
static const char *const synopses[] = {"--directory=DIR --socket=PATH PASSPHRASE [OPTION]...",
                                       "--directory=DIR --init --origin=ORIGIN PASSPHRASE",
                                       "--directory=DIR --init --origin=ORIGIN --region=NAME --main-key=FILE PASSPHRASE",
                                       "--directory=DIR --main-key=FILE PASSPHRASE",
                                       "--directory=DIR --add-version PASSPHRASE",
                                       "--directory=DIR --destroy-version=N [--force] PASSPHRASE",
                                       "--directory=DIR --log-restored PASSPHRASE",
                                       NULL};
static const char *const see_also[] = {"sijild(8)", NULL};

const struct program keyd_program = {
    .name = "sijil-keyd",
    .section = 8,
    .summary = "holds the keys of a Sijil installation",
    .synopses = synopses,
    .about = "Hold the keys of a Sijil installation: wrap and unwrap data keys, and compose and\n"
             "sign tokens and checkpoints of the audit log.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing = "It has no network: gateways on this machine reach it over the socket.",
    .exit_status =
        "0 success, 1 failure, 2 the command line is wrong, or does not fit the existing files: "
        "a wrong passphrase or PIN, a file or folder that is missing or that other users may read. A restart alone does not help with 2.",
    .see_also = see_also,
};
