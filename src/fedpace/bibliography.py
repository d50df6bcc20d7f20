"""The papers behind the algorithms and rules, by key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paper:
    """One reference: enough for a reader to find it and for BibTeX to print it."""

    key: str
    authors: str
    title: str
    venue: str
    year: int
    arxiv: str = ""

    def __str__(self) -> str:
        link = f", arXiv:{self.arxiv}" if self.arxiv else ""
        return f"{self.short}, {self.title}, {self.venue} {self.year}{link}"

    @property
    def short(self) -> str:
        """First authors by surname: `Ma & Yarats`, `Sun et al.`"""
        surnames = [name.rsplit(" ", 1)[-1] for name in self.authors.split(" and ")]
        return " & ".join(surnames) if len(surnames) <= 2 else f"{surnames[0]} et al."

    def bibtex(self) -> str:
        lines = {
            "author": self.authors,
            "title": f"{{{self.title}}}",
            "howpublished": self.venue,
            "year": self.year,
        }
        if self.arxiv:
            lines |= {"eprint": self.arxiv, "archiveprefix": "arXiv"}
        body = ",\n".join(f"  {name} = {{{value}}}" for name, value in lines.items())
        return f"@misc{{{self.key},\n{body}\n}}"


PAPERS = {
    paper.key: paper
    for paper in (
        Paper(
            "mcmahan2017",
            "Brendan McMahan and Eider Moore and Daniel Ramage and Seth Hampson and Blaise Agüera y Arcas",
            "Communication-Efficient Learning of Deep Networks from Decentralized Data",
            "AISTATS",
            2017,
            "1602.05629",
        ),
        Paper(
            "hsu2019",
            "Tzu-Ming Harry Hsu and Hang Qi and Matthew Brown",
            "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
            "preprint",
            2019,
            "1909.06335",
        ),
        Paper(
            "sun2024",
            "Jianhui Sun and Xidong Wu and Heng Huang and Aidong Zhang",
            "On the Role of Server Momentum in Federated Learning",
            "AAAI",
            2024,
            "2312.12670",
        ),
        Paper(
            "ma2019",
            "Jerry Ma and Denis Yarats",
            "Quasi-hyperbolic Momentum and Adam for Deep Learning",
            "ICLR",
            2019,
            "1810.06801",
        ),
        Paper(
            "reddi2021",
            "Sashank Reddi and Zachary Charles and Manzil Zaheer and Zachary Garrett and Keith Rush"
            " and Jakub Konečný and Sanjiv Kumar and Brendan McMahan",
            "Adaptive Federated Optimization",
            "ICLR",
            2021,
            "2003.00295",
        ),
        Paper(
            "wang2022",
            "Yujia Wang and Lu Lin and Jinghui Chen",
            "Communication-Efficient Adaptive Federated Learning",
            "ICML",
            2022,
            "2205.02719",
        ),
        Paper(
            "li2020",
            "Tian Li and Anit Kumar Sahu and Manzil Zaheer and Maziar Sanjabi and Ameet Talwalkar"
            " and Virginia Smith",
            "Federated Optimization in Heterogeneous Networks",
            "MLSys",
            2020,
            "1812.06127",
        ),
        Paper(
            "wang2020",
            "Jianyu Wang and Qinghua Liu and Hao Liang and Gauri Joshi and Vincent Poor",
            "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
            "NeurIPS",
            2020,
            "2007.07481",
        ),
        Paper(
            "karimireddy2020",
            "Sai Praneeth Karimireddy and Satyen Kale and Mehryar Mohri and Sashank Reddi and Sebastian Stich"
            " and Ananda Theertha Suresh",
            "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
            "ICML",
            2020,
            "1910.06378",
        ),
        Paper(
            "xie2019",
            "Cong Xie and Sanmi Koyejo and Indranil Gupta",
            "Asynchronous Federated Optimization",
            "preprint",
            2019,
            "1903.03934",
        ),
        Paper(
            "nguyen2022",
            "John Nguyen and Kshitiz Malik and Hongyuan Zhan and Ashkan Yousefpour and Mike Rabbat"
            " and Mani Malek and Dzmitry Huba",
            "Federated Learning with Buffered Asynchronous Aggregation",
            "AISTATS",
            2022,
            "2106.06639",
        ),
        Paper(
            "lian2015",
            "Xiangru Lian and Yijun Huang and Yuncheng Li and Ji Liu",
            "Asynchronous Parallel Stochastic Gradient for Nonconvex Optimization",
            "NeurIPS",
            2015,
            "1506.08272",
        ),
        Paper(
            "leconte2023",
            "Louis Leconte and Van Minh Nguyen and Eric Moulines",
            "FAVANO: Federated Averaging with Asynchronous Nodes",
            "preprint",
            2023,
            "2305.16099",
        ),
        Paper(
            "zakerinia2022",
            "Hossein Zakerinia and Shayan Talaei and Giorgi Nadiradze and Dan Alistarh",
            "QuAFL: Federated Averaging Can Be Both Asynchronous and Communication-Efficient",
            "preprint",
            2022,
            "2206.10032",
        ),
        Paper(
            "wang2025",
            "Xiaolu Wang and Zijian Li and Shi Jin and Jun Zhang",
            "Achieving Linear Speedup in Asynchronous Federated Learning with Heterogeneous Clients",
            "IEEE Transactions on Mobile Computing",
            2025,
            "2402.11198",
        ),
        Paper(
            "wang2024",
            "Yujia Wang and Yuanpu Cao and Jingcheng Wu and Ruoyu Chen and Jinghui Chen",
            "Tackling the Data Heterogeneity in Asynchronous Federated Learning"
            " with Cached Update Calibration",
            "ICLR",
            2024,
        ),
        Paper(
            "chen2018",
            "Tianyi Chen and Georgios Giannakis and Tao Sun and Wotao Yin",
            "LAG: Lazily Aggregated Gradient for Communication-Efficient Distributed Learning",
            "NeurIPS",
            2018,
            "1805.09965",
        ),
        Paper(
            "bidirectional",
            "Anonymous",
            "Bidirectional Communication-Efficient Non Convex Adaptive Federated Learning",
            "under double-blind review",
            2024,
        ),
        Paper(
            "karimireddy2019",
            "Sai Praneeth Karimireddy and Quentin Rebjock and Sebastian Stich and Martin Jaggi",
            "Error Feedback Fixes SignSGD and other Gradient Compression Schemes",
            "ICML",
            2019,
            "1901.09847",
        ),
        Paper(
            "sattler2019",
            "Felix Sattler and Simon Wiedemann and Klaus-Robert Müller and Wojciech Samek",
            "Robust and Communication-Efficient Federated Learning from Non-IID Data",
            "IEEE Transactions on Neural Networks and Learning Systems",
            2019,
            "1903.02891",
        ),
        Paper(
            "horvath2019",
            "Samuel Horváth and Chen-Yu Ho and Ludovít Horváth and Atal Narayan Sahu and Marco Canini"
            " and Peter Richtárik",
            "Natural Compression for Distributed Deep Learning",
            "MSML",
            2022,
            "1905.10988",
        ),
        Paper(
            "ziv1985",
            "Jacob Ziv",
            "On Universal Quantization",
            "IEEE Transactions on Information Theory",
            1985,
        ),
        Paper(
            "sullivan1996",
            "Gary J. Sullivan",
            "Efficient Scalar Quantization of Exponential and Laplacian Random Variables",
            "IEEE Transactions on Information Theory",
            1996,
        ),
        Paper(
            "witten1987",
            "Ian H. Witten and Radford M. Neal and John G. Cleary",
            "Arithmetic Coding for Data Compression",
            "Communications of the ACM",
            1987,
        ),
        Paper(
            "ghadikolaei2021",
            "Hossein Shokri Ghadikolaei and Sebastian Stich and Martin Jaggi",
            "LENA: Communication-Efficient Distributed Learning with Self-Triggered Gradient Uploads",
            "AISTATS",
            2021,
        ),
        Paper(
            "richtarik2021",
            "Peter Richtárik and Igor Sokolov and Ilyas Fatkhullin",
            "EF21: A New, Simpler, Theoretically Better, and Practically Faster Error Feedback",
            "NeurIPS",
            2021,
            "2106.05203",
        ),
        Paper(
            "gao2024",
            "Yuan Gao and Rustem Islamov and Sebastian U. Stich",
            "EControl: Fast Distributed Optimization with Compression and Error Control",
            "ICLR",
            2024,
            "2311.05645",
        ),
        Paper(
            "fatkhullin2023",
            "Ilyas Fatkhullin and Alexander Tyurin and Peter Richtárik",
            "Momentum Provably Improves Error Feedback!",
            "NeurIPS",
            2023,
            "2305.15155",
        ),
        Paper(
            "stich2018",
            "Sebastian Stich and Jean-Baptiste Cordonnier and Martin Jaggi",
            "Sparsified SGD with Memory",
            "NeurIPS",
            2018,
            "1809.07599",
        ),
        Paper(
            "alistarh2017",
            "Dan Alistarh and Demjan Grubic and Jerry Li and Ryota Tomioka and Milan Vojnovic",
            "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding",
            "NeurIPS",
            2017,
            "1610.02132",
        ),
        Paper(
            "arivazhagan2019",
            "Manoj Ghuhan Arivazhagan and Vinay Aggarwal and Aaditya Kumar Singh and Sunav Choudhary",
            "Federated Learning with Personalization Layers",
            "preprint",
            2019,
            "1912.00818",
        ),
        Paper(
            "li2021fedbn",
            "Xiaoxiao Li and Meirui Jiang and Xiaofei Zhang and Michael Kamp and Qi Dou",
            "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization",
            "ICLR",
            2021,
            "2102.07623",
        ),
        Paper(
            "collins2021",
            "Liam Collins and Hamed Hassani and Aryan Mokhtari and Sanjay Shakkottai",
            "Exploiting Shared Representations for Personalized Federated Learning",
            "ICML",
            2021,
            "2102.07078",
        ),
        Paper(
            "li2021ditto",
            "Tian Li and Shengyuan Hu and Ahmad Beirami and Virginia Smith",
            "Ditto: Fair and Robust Federated Learning Through Personalization",
            "ICML",
            2021,
            "2012.04221",
        ),
        Paper(
            "acar2021",
            "Durmus Alp Emre Acar and Yue Zhao and Ramon Matas Navarro and Matthew Mattina and Paul N. Whatmough "
            "and Venkatesh Saligrama",
            "Federated Learning Based on Dynamic Regularization",
            "ICLR",
            2021,
            "2111.04263",
        ),
    )
}
