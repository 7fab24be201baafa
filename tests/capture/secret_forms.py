"""Command lines with a secret in them, SECRET, in the ways in which people pass secrets.

Words are split as a shell does it. `NAMES` has the secret where a flag's name stands, which is only
told from a name by its look.
"""

from __future__ import annotations

import shlex

# --- Values of flags ------------------------------------------------------------------------------
FLAGS = """\
python train.py --password SECRET
python train.py --password=SECRET
python train.py --pw=SECRET
python train.py --pw SECRET
python train.py --passwd=SECRET --lr 3
python train.py --token SECRET --lr 3
python train.py --hf-token=SECRET
python train.py --hf_token SECRET
python train.py --hfToken SECRET
python train.py --api-key SECRET
python train.py --apikey=SECRET
python train.py --api_key SECRET
python train.py --wandb-key SECRET
python train.py --wandb.api_key=SECRET
python train.py --secret SECRET
python train.py --auth SECRET
python train.py --login me:SECRET
python train.py --user me --credential SECRET
python train.py --name SECRET
python train.py --run-name=SECRET
python train.py --tag SECRET --tag SECRET
python train.py --note 'my SECRET note'
python train.py --foo SECRET
python train.py --foo=SECRET
python train.py --foo =SECRET
python train.py --foo==SECRET
python train.py --foo=a=SECRET
python train.py --foo=SECRET=
python train.py --foo:SECRET
python train.py --foo,SECRET
python train.py --foo/SECRET
python train.py --foo@SECRET
python train.py --foo '"SECRET"'
python train.py --foo "'SECRET'"
python train.py --foo ' SECRET '
python train.py --foo '' SECRET
python train.py --foo a SECRET
python train.py --foo 1 SECRET
python train.py --debug SECRET
python train.py --verbose --password SECRET
python train.py --password SECRET --password SECRET
python train.py --sas '?sv=2022-11-02&sig=SECRET'
python train.py --url 'https://host/?sig=SECRET'
python train.py --url=https://me:SECRET@host/
python train.py --endpoint SECRET.example.com
python train.py --data /mnt/SECRET/x
python train.py --data s3://SECRET/x
python train.py --output-dir ./SECRET
python train.py --resume SECRET
python train.py --lr 3e-4SECRET
python train.py --lr=1,SECRET
python train.py --batch-size 64,SECRET
python train.py --batch-size=[64,SECRET]
python train.py --dtype SECRET
python train.py --dtype=bf16,SECRET
python train.py --optimizer=adamw:SECRET
python train.py --compile-mode SECRET
python train.py --backend nccl://SECRET
python train.py --device cuda:0:SECRET
python train.py --model SECRET
python train.py --model gpt2-SECRET
python train.py --model me/SECRET
python train.py --model meta-llama/SECRET
python train.py --config SECRET
python train.py --config /etc/SECRET.yaml
python train.py --config ../SECRET.yaml
python train.py --config ~/SECRET.yaml
python train.py --config 'configs/SECRET?.yaml'
python train.py --gpus 0 1 x SECRET
python train.py --pin SECRET
python train.py --pin=SECRET
python train.py --otp SECRET
python train.py --code SECRET
python train.py --card-number SECRET
python train.py --user-id SECRET
python train.py --auth.pin_steps SECRET
python train.py --password.size SECRET
python train.py --token.seed=SECRET
python train.py --use-password SECRET
python train.py --use_token=SECRET
"""

# --- Short flags ----------------------------------------------------------------------------------
SHORT = """\
prog -p SECRET
prog -pSECRET
prog -p=SECRET
prog -p:SECRET
prog -p 'SECRET x'
prog -P SECRET
prog -k SECRET
prog -k=SECRET
prog -n SECRET
prog -nSECRET
prog -n=SECRET
prog -m SECRET
prog -mSECRET
prog -c SECRET
prog -xSECRET
prog -O2SECRET
prog -itSECRET
prog -pw SECRET
prog -pw=SECRET
prog -pass SECRET
prog -password=SECRET
prog -Dkey=SECRET
prog -D key=SECRET
prog -u me:SECRET
prog -ume:SECRET
prog -a -b -c SECRET
prog -v SECRET
prog -0SECRET
prog -é SECRET
prog -éSECRET
sshpass -p SECRET ssh host
sshpass -pSECRET ssh host
sshpass -f SECRET ssh host
mysql -u me -pSECRET db
mysql -ume -p SECRET
mysql --user=me --password=SECRET db
psql postgres://me:SECRET@host/db
redis-cli -a SECRET ping
redis-cli -u redis://:SECRET@host:6379/0
curl -u me:SECRET https://host
curl -ume:SECRET https://host
curl --user me:SECRET https://host
curl -H 'Authorization: Bearer SECRET' https://host
curl -H 'X-Api-Key: SECRET' https://host
curl '-HX-Api-Key: SECRET' https://host
curl --header 'Cookie: session=SECRET' https://host
curl -d '{"password":"SECRET"}' https://host
curl -d password=SECRET https://host
curl --data-urlencode pw=SECRET https://host
curl https://SECRET@host/x
curl https://me:SECRET@host/x
curl 'https://host/x?token=SECRET'
curl 'https://host/x#SECRET'
curl https://host/SECRET/hook
wget --http-password=SECRET https://host
git clone https://oauth2:SECRET@host/r.git
docker login -u me -p SECRET
docker run -e TOKEN=SECRET image python train.py
docker run -eTOKEN=SECRET image
docker run --env TOKEN=SECRET image
docker run --env=TOKEN=SECRET image
docker run -it --rm -v /SECRET:/x image
"""

# --- Words without a flag -------------------------------------------------------------------------
WORDS = """\
python train.py SECRET
python train.py a SECRET b
python train.py -- SECRET
python train.py -- --foo SECRET
python train.py -- -p SECRET
python train.py - SECRET
python train.py train SECRET
python train.py @SECRET
python train.py @/etc/SECRET
python train.py SECRET.txt
python train.py data/SECRET
python train.py ./SECRET/x
python train.py /home/me/SECRET
python train.py ~/SECRET
python train.py ~SECRET@x
python train.py me:SECRET@host
python train.py me@SECRET
python train.py SECRET@host
python train.py //SECRET
python train.py redis://:SECRET@host
python train.py postgres://me:SECRET@host/db
python train.py mongodb+srv://me:SECRET@host
python train.py s3://KEY:SECRET@bucket/x
python train.py 'gs://bucket/x?token=SECRET'
python train.py 'https://account.blob.core.windows.net/c?sv=2022&sig=SECRET'
python train.py https://hooks.slack.com/services/T0/B0/SECRET
python train.py 'DefaultEndpointsProtocol=https;AccountKey=SECRET;'
python train.py 'Server=x;Password=SECRET'
python train.py '{"password":"SECRET"}'
python train.py "{'password': 'SECRET'}"
python train.py '{password: SECRET}'
python train.py '["SECRET"]'
python train.py '[SECRET]'
python train.py 'password: SECRET'
python train.py 'password = "SECRET"'
python train.py '<password>SECRET</password>'
python train.py --json '{"a":{"b":["SECRET"]}}'
python train.py --toml 'a.b = "SECRET"'
python train.py 'Bearer SECRET'
python train.py 'naïve SECRET'
python train.py 'ключ=SECRET'
python train.py 'SECRETé'
python train.py 'pass\u200bword=SECRET'
python train.py foo bar --lr 3 SECRET
python train.py --lr 3 SECRET
python train.py --lr=3 SECRET
python train.py --compile true SECRET
python train.py --fp16 SECRET
"""

# --- Settings and variables -----------------------------------------------------------------------
SETTINGS = """\
MYPASS=SECRET python train.py
PGPASSWORD=SECRET psql -h host
A=1 B=SECRET python train.py
MASTER_ADDR=SECRET python train.py
NCCL_DEBUG_FILE=/x/SECRET python train.py
TORCH_HOME=https://me:SECRET@host python train.py
VLLM_API_KEY=SECRET vllm serve gpt2
NVIDIA_API_KEY=SECRET python train.py
env MYPASS=SECRET python train.py
env -i A=SECRET prog
env -u SECRET prog
env -S 'A=SECRET prog'
env WANDB_API_KEY=SECRET HF_TOKEN=SECRET python train.py
python train.py MYPASS=SECRET
python train.py mypass=SECRET
python train.py +trainer.logger.api_key=SECRET
python train.py ++trainer.logger.api_key=SECRET
python train.py trainer.logger.api_key=SECRET
python train.py trainer.logger=SECRET
python train.py logger.wandb.key=SECRET
python train.py 'db={user:me,password:SECRET}'
python train.py 'keys=[a,SECRET]'
python train.py 'trainer.max_steps=[1,SECRET]'
python train.py 'trainer.max_steps=${oc.env:SECRET}'
python train.py +experiment=SECRET
python train.py 'a.b.c="SECRET"'
python train.py a=b=SECRET
python train.py =SECRET
python train.py SECRET=
python train.py SECRET==
python train.py hydra.run.dir=/x/SECRET
python train.py auth.seed=SECRET
"""

# --- Programs in programs -------------------------------------------------------------------------
NESTED = """\
bash -c 'echo SECRET'
bash -lc 'export A=SECRET; python train.py'
bash -ec 'python train.py --pw SECRET'
sh -c 'mysql -pSECRET'
sh -c 'echo $1' sh SECRET
sh -x run.sh SECRET
zsh -ic 'SECRET'
python -c "import os; login('SECRET')"
python -c'print("SECRET")'
python -uc 'print("SECRET")'
python -c pass SECRET
python -X SECRET train.py
python -W SECRET train.py
python -m SECRET.cli:main
python -m pkg.mod SECRET
python -m pkg.mod --foo SECRET
python -m torch.distributed.run --rdzv-id SECRET train.py
python -m torch.distributed.launch --nproc_per_node 8 train.py --foo SECRET
torchrun --rdzv-id SECRET train.py
torchrun --rdzv_id=SECRET train.py
torchrun --rdzv-endpoint SECRET:29500 train.py
torchrun --rdzv-conf password=SECRET train.py
torchrun --master-addr SECRET train.py
torchrun --nproc-per-node 8 train.py SECRET
accelerate launch --main_process_ip SECRET train.py
accelerate launch train.py --hub_token SECRET
accelerate launch --multi_gpu train.py SECRET
deepspeed --include SECRET:0 train.py
deepspeed --num_gpus 8 train.py --deepspeed /SECRET.json
mpirun -x TOKEN=SECRET python train.py
mpirun -np 4 -x SECRET python train.py
mpirun -np 4 -host SECRET python train.py
mpirun -np 4 prog SECRET
srun -A SECRET python train.py
srun -n 4 --export=ALL,TOKEN=SECRET python train.py
srun --job-name SECRET python train.py
srun -n 4 bash -c 'python train.py SECRET'
sudo -u SECRET python train.py
uv run --with SECRET python train.py
vllm serve gpt2 --api-key SECRET
vllm serve SECRET
wandb login SECRET
huggingface-cli login --token SECRET
aws configure set aws_secret_access_key SECRET
ssh -i /SECRET me@host
ssh me@host 'export A=SECRET'
jupyter lab --NotebookApp.token=SECRET
timeout 60 python train.py SECRET
nsys profile -o SECRET python train.py
"""

# --- Where a number is what a flag takes: a secret that is none is masked anyway ------------------
NUMBERS = """\
python train.py --lr SECRET
python train.py --lr=SECRET
python train.py --betas 0.9 0.95 SECRET
python train.py --vault.seed SECRET
CUDA_VISIBLE_DEVICES=SECRET python train.py
NCCL_SOCKET_IFNAME=SECRET python train.py
python train.py trainer.max_steps=SECRET
python train.py trainer.precision=SECRET
torchrun --nproc-per-node SECRET train.py
"""

# --- In the place of a flag's name ----------------------------------------------------------------
NAMES = """\
python train.py --SECRET
python train.py --SECRET 5
python train.py --SECRET=5
python train.py --foo --SECRET
python train.py --SECRET.foo
python train.py --foo.SECRET=1
python train.py --foo_SECRET
python train.py ---SECRET
python train.py SECRET=5
python train.py +SECRET=5
python train.py ~SECRET
python train.py foo.SECRET=5
python train.py -SECRET
python train.py -SECRET=5
python train.py -1SECRET
torchrun --SECRET train.py
python -SECRET train.py
bash -SECRET run.sh
env SECRET=1 prog
srun -SECRET prog
"""

# Values that are known by themselves, whatever is said before them.
KEYS = [
    "hf_aBcDeFgHiJkLmNoPqRsT",
    "sk-proj-aBcDeFgHiJkLmNoPq",
    "ghp_aBcDeFgHiJkLmNoPqRsTuVwX",
    "github_pat_11AAAAAAA0aaaaaaaaaaaa",
    "glpat-aBcDeFgHiJkLmNoPqRsT",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AIzaSyA-aBcDeFgHiJkLmNoPqRsTuVwXyZ01234",
    "xoxb-1234567890-abcdefghijkl",
    "nvapi-aBcDeFgHiJkLmNoPqRsT",
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJ",
    "6f1d8c0a4b7e42b19c3dd0a8f5e61234",
    "6f1d8c0a-4b7e-42b1-9c3d-d0a8f5e61234",
    "c2VjcmV0cGFzc3dvcmQ=",
    "dGhpcyBpcyBhIHNlY3JldA==",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "a\tb\x07c\x1b[31md",
    "пароль-пароль",
    "x" * 70_000,
    "correct horse battery staple",
]


def forms() -> list[list[str]]:
    """Return the command lines that have SECRET in a value."""
    tables = (FLAGS, SHORT, WORDS, SETTINGS, NESTED)
    return [shlex.split(line) for table in tables for line in table.splitlines()]


def forms_of_numbers() -> list[list[str]]:
    """Return those whose flag takes a number."""
    return [shlex.split(line) for line in NUMBERS.splitlines()]


def forms_in_names() -> list[list[str]]:
    """Return those that have SECRET in the place of a name."""
    return [shlex.split(line) for line in NAMES.splitlines()]
