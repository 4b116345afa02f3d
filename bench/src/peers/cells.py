# The day of somebody who analyses data, in 20 cells: a table of 300 MB and what becomes of it, then objects that no pickle holds. The last
# cell damages all of it. `SCALE` is replaced.
# %%
import csv, queue, re, sqlite3, subprocess, threading
import numpy, pandas
scale = SCALE
# %%
rng = numpy.random.default_rng(7)
frame = pandas.DataFrame({name: rng.random(int(9_375_000 * scale)) for name in "abcd"})
# %%
means = frame.groupby((frame["a"] * 1000).astype("int32"))[["b", "c"]].mean()
# %%
part = frame[frame["b"] > 0.5].copy()
# %%
array = rng.random(int(12_500_000 * scale))
# %%
array[: array.size // 100] += 1.0
# %%
table = {f"key {number}": number for number in range(int(200_000 * scale))}
# %%
table["key 7"] = -1
# %%
from sklearn.linear_model import LinearRegression
model = LinearRegression().fit(frame[["a", "b"]][:100_000], frame["c"][:100_000])
# %%
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
figure, axes = pyplot.subplots()
drawn = axes.plot(means["b"].to_numpy()[:200])
# %%
frame["e"] = frame["a"] * frame["b"]
# %%
numbers = (number * number for number in range(10))
words = re.finditer(r"\w+", "one two three four")
first = next(numbers), next(words).group()
# %%
notes = open("notes.txt", "w+")
notes.write("first\n"); notes.flush()
rows = csv.reader(["a,b", "c,d", "e,f"])
row = next(rows)
# %%
database = sqlite3.connect("day.db")
database.execute("create table done (number)")
database.execute("insert into done values (1)")
database.commit()
# %%
asks, answers, lock = queue.Queue(), queue.Queue(), threading.Lock()
lock.acquire()
def work():
    seen = 0
    while (ask := asks.get()) != "end":
        seen += ask
        answers.put(seen)
thread = threading.Thread(target=work, daemon=True)
thread.start()
asks.put(3)
def counter():
    total = 5
    def add(number):
        nonlocal total
        total += number
        return total
    return add
add = counter()
# %%
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
# %%
second = next(numbers), next(words).group(), add(2), answers.get()
notes.write("second\n"); notes.flush()
# %%
table["key 8"] = -2
# %%
array[-(array.size // 100) :] -= 1.0
database.execute("insert into done values (2)")
database.commit()
# %%
frame = part = array = model = None
axes.cla()
table.clear()
list(numbers), list(words), list(rows), add(100)
notes.close()
database.execute("delete from done"); database.commit(); database.close()
asks.put("end"); thread.join()
lock.release()
child.kill(); child.wait()
