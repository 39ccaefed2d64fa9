/*
 * sijil-pod: the programs of a pod (docs/kubernetes.md): it puts itself into a volume, is the payload's first program, and is the
 * agent of a run or of a trial.
 * It is linked statically, because the payload's image may have no libraries.
 *
 * usage: sijil-pod place FOLDER
 *        sijil-pod agent FOLDER ADDRESS PORT PIN
 *        sijil-pod payload FOLDER [tasks] [devices]
 *        sijil-pod trial FOLDER [ADDRESS PORT]... -- PROGRAM [ARGUMENT]...
 */
#include <stdio.h>
#include <string.h>

#include "runner/pod/pod.h"

static int run_payload(char *const *words)
{
    struct pod_wishes wishes = {.tasks = false};

    for (size_t i = 1; words[i] != NULL; i++) {
        if (strcmp(words[i], "tasks") == 0) wishes.tasks = true;
        else if (strcmp(words[i], "devices") == 0) wishes.devices = true;
        else return POD_FAILED;
    }
    return pod_payload(words[0], &wishes);
}

int main(int argc, char **argv)
{
    struct error err = {0};

    if (argc >= 3 && strcmp(argv[1], "payload") == 0) return run_payload(argv + 2);
    if (argc == 6 && strcmp(argv[1], "agent") == 0) return pod_agent(argv[2], argv + 3);
    if (argc > 3 && strcmp(argv[1], "trial") == 0) return pod_trial(argv[2], argv + 3);
    if (argc != 3 || strcmp(argv[1], "place") != 0) return POD_FAILED;
    if (pod_place(argv[2], &err).ok) return 0;
    (void)fprintf(stderr, "sijil-pod: %s\n", err.message);
    return POD_FAILED;
}
