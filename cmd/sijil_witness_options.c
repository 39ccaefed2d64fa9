#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row main_rows[] = {
    {WITNESS_DIRECTORY, "directory", "DIR", "folder of the key and the state; no other user may enter it"},
    {WITNESS_LOGS, "logs", "FILE", "the logs to cosign, one \"log VKEY [URL]\" a line; '#' begins a comment"},
    {WITNESS_ADDRESS, "listen-address", "ADDRESS", "IP address in figures; default: 127.0.0.1"},
    {WITNESS_PORT, "listen-port", "PORT", "default: 8445"},
    {WITNESS_SOCKET, "listen-socket", "PATH", "also serve plain HTTP on this unix socket, for a proxy on this machine"},
    {WITNESS_CERTIFICATE, "tls-certificate", "PEM", "certificate and its chain; read again on SIGHUP"},
    {WITNESS_KEY, "tls-key", "PEM", "its key"},
    {WITNESS_INIT, "init", NULL, "make a key in DIR, print its public forms and end"},
    {WITNESS_NAME, "name", "NAME", "name of the witness, such as witness.example/w1; it can't be changed later"},
    {WITNESS_ACCEPT, "accept", "ORIGIN",
     "accept a log of the list of which DIR has no state, from zero, and end; after a loss of the state ask the other witnesses first how large it was"},
    {WITNESS_COSIGN_HEADS, "cosign-heads", "FILE",
     "sign the statement of sijil-verify replay-keys, which you made of your own dump, print it and end (- is standard input); needs no --logs"},
    {WITNESS_SHOW, "show", NULL, "print the public keys, and size and state of each log, and end"},
    {WITNESS_HELP, "help", NULL, "show this text and end"},
    {WITNESS_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_row passphrase_rows[] = {
    {WITNESS_PASSPHRASE_FILE, "passphrase-file", "FILE", "first line of a file that only the witness's user may read"},
    {WITNESS_PASSPHRASE_FD, "passphrase-fd", "N", "first line of an open descriptor"},
};
static const struct option_group groups[] = {
    {"", main_rows, COUNT(main_rows)},
    {"PASSPHRASE is one of", passphrase_rows, COUNT(passphrase_rows)},
};
static const char *const synopses[] = {"--directory=DIR --logs=FILE --tls-certificate=PEM --tls-key=PEM PASSPHRASE [OPTION]...",
                                       "--directory=DIR --init --name=NAME PASSPHRASE",
                                       "--directory=DIR --logs=FILE --accept=ORIGIN",
                                       "--directory=DIR --logs=FILE --show PASSPHRASE", NULL};
static const char *const see_also[] = {"sijil-keyd(8)", "sijil-verify(1)", NULL};

const struct program witness_program = {
    .name = "sijil-witness",
    .section = 8,
    .summary = "cosigns checkpoints of transparency logs",
    .synopses = synopses,
    .about = "Cosign checkpoints of transparency logs (C2SP tlog-witness v1.0.0): each checkpoint only\n"
             "with a proof that the log continues the one that was cosigned before.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing = "The state of a log is on the disk before its cosignature leaves. Only one process can use DIR.",
    .exit_status =
        "0 success, 1 failure, 2 the command line is wrong, or does not fit the existing files: a wrong passphrase, a list of logs that can't be "
        "read, a state that is damaged. A restart alone does not help with 2.",
    .see_also = see_also,
};
